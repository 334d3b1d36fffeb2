"""What is wrong with a cluster: ``gather`` reads one snapshot of facts, ``checks`` turn it into findings.

``gcushare doctor`` shows the findings, ``gcushare support-bundle`` sends them. The checks are pure functions; only
``gather`` and ``cluster_objects`` read.
"""
