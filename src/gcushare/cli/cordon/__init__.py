"""``gcushare cordon-card`` and ``uncordon-card``: no new pods on one card, while those that run there stay.

The whole state is one annotation of the Node, which an admin may also write by hand. The plugin and the extender follow
it. Unlike a drain it ends no pod.
"""
