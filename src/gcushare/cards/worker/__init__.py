"""A vendor's library in a process of its own, so that its hang or crash is not ours.

``client`` is the parent's side, ``main`` the child's.
"""
