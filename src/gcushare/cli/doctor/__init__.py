"""``gcushare doctor`` and ``gcushare support-bundle``: what is wrong with a cluster, and what to send when asked.

It gathers one snapshot (``facts``) through the API server, and asks the programs over HTTP what they know; the checks
are pure functions from the snapshot to findings. It imports ``kube``, ``cluster``, ``wire`` and ``core``, never another
program.
"""
