"""The decisions and the accounting: units, requests, ledger, placement, matching.

Pure: no I/O, no clock, no randomness, no logging, no async. Time, ids and seeds are arguments; results are values
with their reasons. Every package may import it; it imports none.
"""
