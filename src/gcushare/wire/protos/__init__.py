"""The kubelet's gRPC APIs as generated messages, and the names of their methods.

``make protos`` regenerates the ``*_pb2`` modules from the ``.proto`` files in this folder. It generates no stubs:
servers and clients use the method names in ``services`` and choose how each message is encoded.
"""
