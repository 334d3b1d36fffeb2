"""``gcushare simulate``: place a workload on a cluster by each policy, without a cluster, and compare.

Cards are counted by the ledger and granted as the extender grants them; CPU and memory of nodes are this package's
own addition, for the extender leaves them to kube-scheduler. No module here writes to a cluster.
"""
