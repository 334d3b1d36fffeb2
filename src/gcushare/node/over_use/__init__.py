"""Pods of this node that use more than they were granted: seen after each look, noted on them, evicted where asked."""
