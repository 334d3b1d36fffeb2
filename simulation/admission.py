"""Admission policies of a cluster's own: they refuse writes to some pods, but the system's, for up to hours."""

from __future__ import annotations

from collections import Counter

from simulation.loop import SimulatedLoop

SYSTEM = "kube-system"
"""The namespace that such policies leave alone, as is usual."""


class AdmissionPolicies:
    """Each refuses changes of the pods whose names end in one character; users' own and bindings pass."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._held: Counter[str] = Counter()
        self._ended_s: dict[str, float] = {}

    def begin(self, last: str) -> None:
        """Refuse writes to the pods whose names end so."""
        self._held[last] += 1

    def end(self, last: str) -> None:
        """Let them pass again, if no other policy of the kind holds."""
        self._held[last] -= 1
        self._ended_s[last] = self._loop.now_s

    def refuses(self, name: str) -> bool:
        """Whether a pod's changes are refused now."""
        return self._held[name[-1]] > 0

    def refused_within(self, name: str, past_s: float) -> bool:
        """Whether they were at any time in the past seconds."""
        return self.refuses(name) or self._ended_s.get(name[-1], float("-inf")) > self._loop.now_s - past_s
