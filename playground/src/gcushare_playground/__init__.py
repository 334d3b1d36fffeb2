"""The embedded cluster that the demo and the tests run the real programs against.

Doubles of the API server, the scheduler and the kubelet: they speak the real protocols over real sockets, refuse
what the real ones refuse, and can be asked to fail. No program imports from here.
"""

import os

# gRPC's own preparation for a fork can crash a child that is started while it works. No child here runs on after one.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
