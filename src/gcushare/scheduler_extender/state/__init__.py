"""The state of each vendor: what the watches of Nodes and Pods brought, reduced to one ledger."""
