"""``gcushare cards``: one node's cards on a screen, with who is on them and what they really do.

It reads: a plugin of this machine, a node's plugins through the API server, or the vendors' libraries themselves; it
changes nothing. ``view`` is what is known, ``draw`` how it looks, ``status_sources`` where it comes from.
"""
