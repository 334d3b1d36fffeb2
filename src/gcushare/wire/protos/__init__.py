"""The kubelet's two gRPC APIs as generated messages, and the names of their methods.

``make protos`` regenerates the ``*_pb2`` modules from the ``.proto`` files beside them. No stubs are generated:
servers and clients name a method by the constants of ``services`` and choose how each message is encoded.
"""
