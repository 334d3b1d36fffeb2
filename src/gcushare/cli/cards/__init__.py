"""``gcushare cards``: one node's cards on a screen, with who is on them and what they really do.

It reads: a plugin of this machine, a node's plugins through the API server, or the vendors' libraries themselves; it
changes nothing. ``picture`` is what is known, ``drawing`` how it looks, ``looking`` where it comes from.
"""
