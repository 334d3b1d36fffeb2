"""What docs/packing.md compares: other policies, what none can exceed, and pods that end."""
