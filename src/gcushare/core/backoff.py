"""How long to wait before a retry, for every layer.

Use one `Backoff` for each retried operation: a watch, the calls to a card, the writes of one object. No other module
has its own table of waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gcushare.core.errors import RetryableError


class Chance(Protocol):
    """The method of ``random.Random`` that `Backoff` needs. The core does not import ``random``."""

    def uniform(self, a: float, b: float) -> float:
        """Return a random number between ``a`` and ``b``."""
        ...


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Exponential waits: ``first_s`` after the first failure, doubled with each further one, at most ``cap_s``."""

    first_s: float = 0.2
    cap_s: float = 20.0


def doubled_s(first_s: float, cap_s: float, failures: int) -> float:
    """Return the wait after this many earlier failures: ``first_s`` doubled with each, at most ``cap_s``."""
    # The exponent is bounded, because 2.0**1024 would overflow after a long outage.
    return min(cap_s, first_s * 2.0 ** min(failures, 60))


class Backoff:
    """The waits of one retried operation.

    With ``rng``, each wait is multiplied by a random factor between 0.5 and 1. Pass one (``random.Random()``, seeded in
    tests) if many nodes retry against one server, so that they do not all return at once after a restart. Omit it for
    retries on one machine.
    """

    def __init__(self, policy: BackoffPolicy, rng: Chance | None = None) -> None:
        self._policy = policy
        self._rng = rng
        self.failures = 0
        """Failures since the last success."""

    def reset(self) -> None:
        """Set the number of failures to 0. Call it after a success."""
        self.failures = 0

    def next_delay_s(self, failure: Exception | None = None) -> float:
        """Count a failure and return the wait in seconds: at least the server's delay in ``failure``, if it has one."""
        delay_s = doubled_s(self._policy.first_s, self._policy.cap_s, self.failures)
        self.failures += 1
        if self._rng is not None:
            delay_s *= self._rng.uniform(0.5, 1.0)
        asked_s = failure.delay_s if isinstance(failure, RetryableError) else None
        return max(asked_s or 0.0, delay_s)
