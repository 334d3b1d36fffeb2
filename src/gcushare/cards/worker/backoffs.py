"""When may something that failed be tried again? One growing wait per key; pure, time is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    wait_s: float
    until_s: float


class Backoffs(Generic[K]):
    """Waits that start at ``first_s`` and double with each failure up to ``longest_s``."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures: dict[K, _Failure] = {}

    def fail(self, key: K, now_s: float, reason: str) -> float:
        """Note a failure; return how long the key has to wait now."""
        before = self._failures.get(key)
        wait_s = self._first_s if before is None else min(before.wait_s * 2, self._longest_s)
        self._failures[key] = _Failure(reason, wait_s, now_s + wait_s)
        return wait_s

    def succeed(self, key: K) -> None:
        """Forget the key's failures."""
        self._failures.pop(key, None)

    def blocked_by(self, key: K, now_s: float) -> str | None:
        """The reason of the failure for which the key still waits; None when it may be tried."""
        failure = self._failures.get(key)
        return failure.reason if failure is not None and now_s < failure.until_s else None
