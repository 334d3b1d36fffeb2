"""``kubectl inspect gcushare explain``: why a pod waits, or which card it has."""
