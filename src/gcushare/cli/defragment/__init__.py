"""``gcushare defragment``: finds the fewest pods to move to make room for a request, and moves them.

Only ``execute`` changes a cluster, through the Eviction API.
"""
