"""The embedded cluster that the demo and the tests run the real programs against.

Doubles of the API server, the scheduler and the kubelet: they speak the real protocols over real sockets, refuse
what the real ones refuse, and can be asked to fail. No program imports from here.
"""
