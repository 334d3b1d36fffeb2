"""``kubectl inspect gcushare top``: memory granted beside memory in use."""
