"""What the watches of Nodes and Pods say, reduced to one ledger per vendor."""
