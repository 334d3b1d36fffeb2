"""Count, by namespace, the pods in a row that were woken and not bound: such pods must not delay those of others."""

from __future__ import annotations

FREE_FAILURES = 4
"""Pods of a namespace in a row that may be woken and not bound before its other pods come last."""
FORGET_S = 600.0
"""A namespace starts over when none of its pods failed for so long."""


class UnboundWakes:
    """Which namespaces come last, because their woken pods were not bound lately."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}
        """By namespace: failures in a row, and when the last one was."""
        self.deferred: set[str] = set()
        """The namespaces whose pods come last."""

    def record(self, namespace: str, now_s: float, *, is_bound: bool) -> None:
        """Record the end of an attempt to wake a pod."""
        if is_bound:
            self._failures.pop(namespace, None)
            self.deferred.discard(namespace)
            return
        failures = self._failures.get(namespace, (0, 0.0))[0] + 1
        self._failures[namespace] = (failures, now_s)
        if failures >= FREE_FAILURES:
            self.deferred.add(namespace)

    def drop_old(self, now_s: float) -> None:
        """Forget namespaces without a failure for ``FORGET_S``."""
        for namespace, (_, last_s) in list(self._failures.items()):
            if now_s >= last_s + FORGET_S:
                del self._failures[namespace]
                self.deferred.discard(namespace)
