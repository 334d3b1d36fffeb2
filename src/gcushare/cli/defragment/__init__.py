"""``gcushare defragment``: finds the fewest pods to move to make room for a request. It changes nothing."""
