"""``kubectl inspect gcushare`` and ``gpushare``: which pods use which card, why a pod waits, how much is really in use.

The figures are the scheduler extender's, or, where it is away, counted by the same ledger from nodes and pods.
``cluster`` reads them; here ``session`` is what a command runs in, ``commands`` print, and the rest lays out.
"""
