"""The checks: pure functions from a snapshot to findings, one module per subject. ``table`` lists them."""
