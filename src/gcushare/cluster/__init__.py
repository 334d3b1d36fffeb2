"""What a cluster holds: its nodes, pods and claims reduced to one ledger, and what plugins and the extender report.

The extender and the commands for people share the ledger. Whatever reads here reads through ``kube`` and never writes.
"""
