"""Foreign bytes, made up: every decoder of the programs is given examples that were changed at random.

A package of tests and a command (`make fuzz`). ``decoders`` lists what is tried, ``corpus`` the examples, ``mutations``
what is done to them, ``evaluating`` what an input may lead to, ``shrinking`` makes a failing one small.
"""
