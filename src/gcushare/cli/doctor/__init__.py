"""``gcushare doctor``: examines a cluster, shows what is wrong, and repairs what is safe to repair when asked."""
