"""What a cluster holds, read from outside: nodes, pods, plugins and extender, reduced to one ledger.

Used by the commands for people. It reads through ``kube`` and never writes.
"""
