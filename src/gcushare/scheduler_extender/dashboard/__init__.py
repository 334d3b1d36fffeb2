"""The page: the cluster's cards as a live view, read-only, from the ledger that the scheduler's answers come from.

It is served by the extender and knows its services; nothing of the extender knows it but the wiring in ``app``. The
files in ``static`` are plain ES modules and one style sheet: what stands there is what the browser runs.
"""
