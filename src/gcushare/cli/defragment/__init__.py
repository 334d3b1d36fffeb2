"""``gcushare defragment``: which fewest pods, placed elsewhere, would make room for a request. It only reads."""
