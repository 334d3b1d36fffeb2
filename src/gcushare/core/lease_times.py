"""The times of a leader election. Settings check theirs with it, so this imports nothing else of ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times of an election, in seconds.

    ``duration_s`` is how long others wait after the last renewal that they saw, ``renew_deadline_s`` how long a holder
    serves after the last renewal that it sent, ``retry_s`` the time between two attempts.
    """

    duration_s: float
    renew_deadline_s: float
    retry_s: float

    def __post_init__(self) -> None:
        if not (self.duration_s >= 1 and self.duration_s == int(self.duration_s)):
            raise ValueError(
                f"duration_s must be whole seconds, at least 1 (the lease's unit), got {self.duration_s!r}"
            )
        if not 0 < self.retry_s < self.renew_deadline_s < self.duration_s:
            raise ValueError(
                "expected 0 < retry_s < renew_deadline_s < duration_s, got "
                f"{self.retry_s!r}, {self.renew_deadline_s!r} and {self.duration_s!r}"
            )
