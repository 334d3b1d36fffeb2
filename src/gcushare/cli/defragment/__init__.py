"""``gcushare defragment``: which fewest pods, placed elsewhere, would make room for a request, and moving them.

Only ``execute`` changes a cluster, through the Eviction API.
"""
