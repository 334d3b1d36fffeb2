"""Codecs between bytes and values: annotations, device ids, extender JSON, documents, Kubernetes objects.

No I/O: functions take bytes or text and return values, or the reverse. Generated protobuf messages may be imported
here. ``wire`` imports ``core`` and ``vendors``; ``kube``, ``cards`` and the programs import ``wire``.
"""
