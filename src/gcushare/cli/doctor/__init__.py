"""``gcushare doctor``: examines a cluster and shows what is wrong."""
