"""How long to wait before trying again what failed; pure, for every layer.

Use one `Backoff` per thing that is tried: a watch, a card's calls, one object that is written. Fixed tables of waits
belong nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gcushare.core.errors import RetryableError


class Chance(Protocol):
    """The part of ``random.Random`` that is used; this layer imports no randomness."""

    def uniform(self, a: float, b: float) -> float:
        """Return a number between both."""
        ...


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Growing waits: ``first_s`` after the first failure, doubled at each further one up to ``cap_s``."""

    first_s: float = 0.2
    cap_s: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.cap_s:
            raise ValueError(f"first_s must be above 0 and at most cap_s, got {self.first_s!r} and {self.cap_s!r}")


def doubled_s(first_s: float, cap_s: float, failures: int) -> float:
    """Return the wait after so many earlier failures: ``first_s`` doubled with each, at most ``cap_s``."""
    # Bounded exponent: 2.0**1024 overflows after a long outage.
    return min(cap_s, first_s * 2.0 ** min(failures, 60))


class Backoff:
    """The waits of one thing that is tried.

    With ``rng`` each wait is cut to a random part of at least half: give one (``random.Random()``, seeded in tests) if
    many nodes retry against one server, so that they do not return in the same instant after it restarts. Leave it out
    for what one machine retries alone.
    """

    def __init__(self, policy: BackoffPolicy, rng: Chance | None = None) -> None:
        self._policy = policy
        self._rng = rng
        self._failures = 0

    @property
    def failures(self) -> int:
        """Failures since the last success."""
        return self._failures

    def reset(self) -> None:
        """Forget past failures; call after a success."""
        self._failures = 0

    def next_delay_s(self, failure: Exception | None = None) -> float:
        """Count a failure and return how long to wait: never shorter than the server asked for in ``failure``."""
        delay_s = doubled_s(self._policy.first_s, self._policy.cap_s, self._failures)
        self._failures += 1
        if self._rng is not None:
            delay_s *= self._rng.uniform(0.5, 1.0)
        asked_s = failure.delay_s if isinstance(failure, RetryableError) else None
        return max(asked_s or 0.0, delay_s)
