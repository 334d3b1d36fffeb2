"""``kubectl inspect gcushare top``: memory granted next to memory in use."""
