"""Pods that use more of a card than they were granted: which they are, and which of them is evicted, if any."""
