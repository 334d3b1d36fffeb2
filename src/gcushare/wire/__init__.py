"""Pure codecs between bytes and values: annotations, device ids, extender JSON, documents, Kubernetes objects.

No I/O: what is read is given as bytes or text, what is written is returned. Generated protobuf messages may be
imported here. It knows ``core`` and ``vendors``; ``kube``, ``cards`` and the programs know it.
"""
