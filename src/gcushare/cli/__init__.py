"""The commands for people: ``kubectl inspect``, ``gcushare doctor``, ``cards``, ``cordon-card`` and the others.

They read the cluster through ``cluster`` and ``kube``; the programs that run in the cluster never import them.
"""
