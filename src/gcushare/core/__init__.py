"""Decisions and accounting: units, requests, ledger, placement, matching; and the errors and words of every package.

Pure: no I/O, no clock, no randomness, no logging, no async. Time, ids and seeds are arguments. Results are values with
their reasons. Every package may import the core; the core imports none.
"""
