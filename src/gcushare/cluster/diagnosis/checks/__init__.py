"""The checks: pure functions from a snapshot to findings, one module per subject. ``registry`` lists them."""
