"""``kubectl inspect gcushare`` and ``gpushare``: who uses which card, why a pod waits, what is really in use.

The figures are the scheduler extender's, or, where it is away, counted by the same ledger from nodes and pods.
``snapshot`` holds what was read, ``reading`` and ``extender`` read it, the rest shows it; showing never asks anybody.
"""
