"""When what failed may be tried again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from gcushare.cards.errors import Ending

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    wait_s: float
    until_s: float
    process: Ending | None

    def blocks(self, now_s: float) -> str | None:
        if self.process is not None and self.process.is_running:
            return f"{self.reason}; a process is stuck in the driver (pid {self.process.pid})"
        return self.reason if now_s < self.until_s else None


class Backoffs(Generic[K]):
    """When what failed may be tried again: waits per key that double from ``first_s`` to ``longest_s``.

    Longer where the process that it cost does not end: each further try would leave another one behind.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures: dict[K, _Failure] = {}

    def fail(self, key: K, now_s: float, reason: str, process: Ending | None = None) -> float:
        """Note a failure, and the process that it cost; return how long the key has to wait now."""
        before = self._failures.get(key)
        wait_s = self._first_s if before is None else min(before.wait_s * 2, self._longest_s)
        self._failures[key] = _Failure(reason, wait_s, now_s + wait_s, process)
        return wait_s

    def succeed(self, key: K) -> None:
        """Forget the key's failures."""
        self._failures.pop(key, None)

    def blocked_by(self, key: K, now_s: float) -> str | None:
        """The reason of the failure for which the key still waits; None when it may be tried."""
        failure = self._failures.get(key)
        return failure.blocks(now_s) if failure is not None else None
