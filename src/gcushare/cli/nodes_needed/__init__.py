"""``gcushare nodes-needed``: how many more nodes the waiting pods need. Reads only."""
