"""How fast to try again, and how fast to write."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gcushare.core.errors import RetryableError
from gcushare.kube.clock import Clock


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Growing waits: ``first_s`` doubled at each failure up to ``cap_s``, each cut to a random part of at least half.

    The random part keeps a thousand nodes from coming back in the same instant after the API server restarts.
    """

    first_s: float = 0.2
    cap_s: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.cap_s:
            raise ValueError(f"first_s must be above 0 and at most cap_s, got {self.first_s!r} and {self.cap_s!r}")


def doubled_s(first_s: float, longest_s: float, failures: int) -> float:
    """The wait after so many failures: ``first_s``, doubled with each, and no longer than ``longest_s``."""
    # Bounded exponent: 2.0**1024 overflows after a long outage.
    return min(longest_s, first_s * 2.0 ** min(failures, 60))


class Backoff:
    """The waits of one loop. ``rng`` is injected: seeded in tests, ``random.Random()`` in programs."""

    def __init__(self, policy: BackoffPolicy, rng: random.Random) -> None:
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
        """Count a failure and say how long to wait, no shorter than what the server asked for in ``failure``."""
        full_s = doubled_s(self._policy.first_s, self._policy.cap_s, self._failures)
        self._failures += 1
        asked_s = failure.delay_s if isinstance(failure, RetryableError) else None
        return max(asked_s or 0.0, full_s * self._rng.uniform(0.5, 1.0))


class TokenBucket:
    """Limits background writes to ``rate_per_s`` on average with bursts of ``burst``; waiters are served in order."""

    def __init__(self, rate_per_s: float, burst: int, clock: Clock) -> None:
        if rate_per_s <= 0 or burst < 1:
            raise ValueError(f"rate_per_s must be above 0 and burst at least 1, got {rate_per_s!r} and {burst!r}")
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def _take(self) -> float:
        """Take a token, possibly one of the future; returns the seconds until it exists."""
        self._fill()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate_per_s)

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate_per_s)
        self._filled_at = now

    def take_now(self) -> bool:
        """Take a token that exists already; False where there is none, and nothing is taken."""
        self._fill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    async def take(self) -> None:
        """Wait for the turn; a cancelled waiter's turn stays used up, which only makes the limit stricter."""
        delay_s = self._take()
        if delay_s > 0:
            await self._clock.sleep(delay_s)
