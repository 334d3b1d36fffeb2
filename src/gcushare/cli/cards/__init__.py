"""``gcushare cards``: one node's cards on a screen, with who is on them and what they really do.

It reads the plugins of this machine, or a node's plugins through the API server, and changes nothing. ``view`` is what
is known, ``draw`` how it looks, ``status_sources`` where it comes from.
"""
