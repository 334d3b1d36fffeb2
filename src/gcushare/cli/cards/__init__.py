"""``gcushare cards``: one node's cards on a screen, with the pods on them and the memory in use.

It reads the plugins of this machine, or a node's plugins through the API server, and changes nothing.
``status_sources`` asks the plugins; ``cluster.card_drawing`` draws the answer.
"""
