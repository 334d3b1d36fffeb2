"""A clock that a test moves by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(slots=True)
class ManualClock:
    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s

    monotonic = __call__

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_s, UTC)

    async def sleep(self, delay_s: float) -> None:
        self.advance(delay_s)

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
