"""Foreign bytes, made up: every door of the programs is given examples that were changed at random.

A package of tests and a command (`make fuzz`). ``doors`` lists what is tried, ``corpus`` the examples, ``mutations``
what is done to them, ``judging`` what an input may lead to, ``shrinking`` makes a failing one small.
"""
