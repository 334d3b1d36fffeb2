"""Pods that use more of a card than they were granted: who they are, and which of them is evicted, if any. Pure."""
