"""Annotations of Nodes and Pods: the inventory, a pod's record, our own keys."""
