"""When a failed call may be tried again, per card or library."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from gcushare.cards.errors import Ending
from gcushare.core.backoff import Backoff, BackoffPolicy

K = TypeVar("K")


class _Failure(NamedTuple):
    reason: str
    until_s: float
    process: Ending | None


class Backoffs(Generic[K]):
    """A `Backoff` per key, with the reason for the pause.

    A key is also blocked while the process that its call cost has not ended: another try could leave another process
    stuck. Times are seconds of the caller's monotonic clock.
    """

    def __init__(self, first_s: float, cap_s: float) -> None:
        self._policy = BackoffPolicy(first_s, cap_s)
        self._backoffs: dict[K, Backoff] = {}
        self._failures: dict[K, _Failure] = {}

    def fail(self, key: K, now_s: float, reason: str, process: Ending | None = None) -> float:
        """Record a failure, and the process that it cost; return the pause in seconds."""
        wait_s = self._backoffs.setdefault(key, Backoff(self._policy)).next_delay_s()
        self._failures[key] = _Failure(reason, now_s + wait_s, process)
        return wait_s

    def succeed(self, key: K) -> None:
        self._backoffs.pop(key, None)
        self._failures.pop(key, None)

    def blocked_by(self, key: K, now_s: float) -> str | None:
        """Return the reason why the key is blocked; None if it may be tried."""
        failure = self._failures.get(key)
        if failure is None:
            return None
        if failure.process is not None and failure.process.is_running:
            return f"{failure.reason}; a process is stuck in the driver (pid {failure.process.pid})"
        return failure.reason if now_s < failure.until_s else None
