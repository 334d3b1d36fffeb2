"""Which card a container gets, and how it gets it: the answers to GetPreferredAllocation and Allocate."""
