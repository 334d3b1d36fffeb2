"""The driver of a node whose cards are given out as resource claims (Dynamic Resource Allocation).

It publishes the cards as ResourceSlices, from which the scheduler allocates claims, and prepares allocated claims for
the kubelet. It imports no other program.
"""
