"""The node side: registers the memory resource with the kubelet and hands each container exactly its card.

Decisions (``planning``, ``allocation``, ``pod_book``) are pure; the rest serves the kubelet, watches this node's own
pods and publishes its cards. It is no scheduler: it follows the extender's record, and the kubelet's where they differ.
"""
