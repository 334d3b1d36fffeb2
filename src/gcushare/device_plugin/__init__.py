"""The node side: registers the memory resource with the kubelet and hands each container exactly its card.

Decisions (``node.inventory``, ``allocation``, ``pods.store``) are pure; the rest serves the kubelet, watches the node's
pods and publishes its cards. It is no scheduler: it follows the extender's record, and the kubelet's where they differ.
"""
