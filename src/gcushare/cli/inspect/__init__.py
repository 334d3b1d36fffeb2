"""``kubectl inspect gcushare`` and ``gpushare``: which pods use which card, why a pod waits, how much is really in use.

The figures are the scheduler extender's; if it does not answer, the same ledger counts nodes and pods here. ``cluster``
reads them, ``kubectl`` has the flags, the session and the summary, ``explain`` and ``top`` are commands of their own.
"""
