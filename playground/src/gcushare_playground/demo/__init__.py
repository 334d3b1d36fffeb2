"""``gcushare demo``: the real programs on one machine, playing upstream's scenarios, each step checked.

It starts the doubles, and the real programs as processes, shows what a person with kubectl would see, and
ends with exit code 1 where one step is not as the documents say. It decides nothing itself; no one imports it.
"""
