"""Limits the rate of writes to the API server. For waits before a retry use ``gcushare.core.backoff``."""

from __future__ import annotations

from gcushare.kube.clock import Clock


class TokenBucket:
    """Limits background writes to ``rate_per_s`` on average, with bursts of ``burst``. Waiters are served in order."""

    def __init__(self, rate_per_s: float, burst: int, clock: Clock) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate_per_s)
        self._filled_at = now

    def take_now(self) -> bool:
        """Take a token without waiting; False if there is none."""
        self._fill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    async def take(self) -> None:
        """Wait for a token. The token of a cancelled waiter stays used, which only makes the limit stricter."""
        self._fill()
        self._tokens -= 1.0
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._rate_per_s)
