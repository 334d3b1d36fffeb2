"""How long calls into a vendor's library may take, and how long a card or a library rests after a failure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gcushare.core.backoff import Backoff, BackoffPolicy

if TYPE_CHECKING:  # settings need the default alone
    from gcushare.cards.worker.process import WorkerProcess

DEFAULT_CALL_TIMEOUT_S = 5.0
"""How long a call may take before its worker is killed. Calls read memory or a register; a second would be long."""
CARD_PAUSES = BackoffPolicy(first_s=10.0, cap_s=300.0)
"""Of a card's calls after some that hung or crashed. The longest is the time until a recovered card is noticed."""
LIBRARY_PAUSES = BackoffPolicy(first_s=1.0, cap_s=30.0)
"""Before a library is opened again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationSettings:
    """Time limits of a library's calls, and the pauses after failures; all in seconds."""

    open_timeout_s: float = 60.0
    """Opening the library: a driver without persistence mode first wakes every card, which takes seconds per card."""
    call_timeout_s: float = DEFAULT_CALL_TIMEOUT_S
    """Any other call."""
    card_pauses: BackoffPolicy = CARD_PAUSES
    library_pauses: BackoffPolicy = LIBRARY_PAUSES


DEFAULT_LIMITS = IsolationSettings()


@dataclass(slots=True)
class _Pause:
    backoff: Backoff
    reason: str = ""
    until_s: float = 0.0
    process: WorkerProcess | None = None


class Pauses:
    """The growing pauses after failures, each with its reason; the key says what pauses.

    A key is also blocked while the process that its call cost has not ended: another try could leave another process
    stuck. Times are seconds of the caller's monotonic clock.
    """

    def __init__(self) -> None:
        self._pauses: dict[Hashable, _Pause] = {}

    def fail(
        self, key: Hashable, policy: BackoffPolicy, now_s: float, reason: str, process: WorkerProcess | None = None
    ) -> float:
        """Record a failure, and the process that it cost; return the pause in seconds. The first sets the policy."""
        pause = self._pauses.setdefault(key, _Pause(Backoff(policy)))
        wait_s = pause.backoff.next_delay_s()
        pause.reason, pause.until_s, pause.process = reason, now_s + wait_s, process
        return wait_s

    def succeed(self, key: Hashable) -> None:
        self._pauses.pop(key, None)

    def blocked_by(self, key: Hashable, now_s: float) -> str | None:
        """Return the reason why the key is blocked; None if it may be tried."""
        pause = self._pauses.get(key)
        if pause is None:
            return None
        if pause.process is not None and pause.process.is_running:
            return f"{pause.reason}; a process is stuck in the driver (pid {pause.process.pid})"
        return pause.reason if now_s < pause.until_s else None
