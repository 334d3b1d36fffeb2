"""Preemption: which pods must end so that a pod fits, and the room that is kept for it until it is bound."""
