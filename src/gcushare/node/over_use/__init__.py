"""Pods of this node that use more than they were granted: found at each poll, annotated, evicted on request."""
