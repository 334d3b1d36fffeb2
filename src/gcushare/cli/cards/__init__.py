"""``gcushare cards``: one node's cards on a screen, with the pods on them and the memory in use. It changes nothing."""
