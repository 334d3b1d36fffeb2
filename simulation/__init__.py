"""A world that fails: the real programs in one process, on virtual clocks, with every chance drawn from one seed.

A tool of the developers' like ``benchmarks`` and ``scripts``: it is run from the repository and shipped nowhere.
"""
