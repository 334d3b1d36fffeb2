"""Network faults between two processes: set by the schedule, drawn at random for each message."""

from __future__ import annotations

import enum
import random
from collections import Counter
from dataclasses import dataclass, field, fields


class Fate(enum.Enum):
    """The fate of one request."""

    FINE = "fine"
    LOST_BEFORE = "request lost before its effect"
    LOST_AFTER = "answer lost after the effect"
    RESET_BEFORE = "connection reset before the effect"
    RESET_AFTER = "connection reset after the effect"
    UNAVAILABLE = "answered 503"
    FAILED_AFTER = "answered 500 after the effect"
    TOO_MANY = "answered 429"
    REFUSED = "connection refused"


@dataclass(slots=True)
class Odds:
    """Probabilities and times of one stretch of bad weather."""

    lost_before: float = 0.0
    lost_after: float = 0.0
    reset_before: float = 0.0
    reset_after: float = 0.0
    unavailable: float = 0.0
    failed_after: float = 0.0
    too_many: float = 0.0
    refused: float = 0.0
    reset_binding: float = 0.0
    """A Binding's connection is reset before the answer, so that the pod is read at once."""
    duplicate: float = 0.0
    """A watch event arrives twice."""
    swap: float = 0.0
    """A watch event arrives after the next one, which is about another object."""
    slow_s: float = 0.0
    """Added to each way at random, up to this."""
    answer_s: float = 0.0
    """Added to the answer of each write at random, up to this: the watch shows the write first, and what follows it."""
    lag_s: float = 0.0
    """Added to each event of a watch at random, up to this."""
    page_s: float = 0.0
    """Added to each page of a list at random, up to this."""


_FATES = tuple((fate, fate.name.lower()) for fate in Fate if fate is not Fate.FINE)


@dataclass(slots=True)
class Weather:
    """The present odds for one pair of processes: the sum of all active faults."""

    rng: random.Random
    counts: Counter[str]
    holding: dict[int, Odds] = field(default_factory=dict)
    _sum: Odds = field(default_factory=Odds)
    is_fine: bool = True

    def begin(self, number: int, odds: Odds) -> None:
        """Begin a fault."""
        self.holding[number] = odds
        self._add_up()

    def end(self, number: int) -> None:
        """End a fault. Repeatable."""
        self.holding.pop(number, None)
        self._add_up()

    def clear(self) -> None:
        """End all faults."""
        self.holding.clear()
        self._add_up()

    def _add_up(self) -> None:
        self._sum = Odds(**{f.name: sum(getattr(odds, f.name) for odds in self.holding.values()) for f in fields(Odds)})
        self.is_fine = not self.holding

    def fate(self, *, is_binding: bool = False) -> Fate:
        """Draw the fate of a request."""
        if self.is_fine:
            return Fate.FINE
        drawn = self.rng.random()
        if is_binding and self._sum.reset_binding:
            drawn -= self._sum.reset_binding
            if drawn < 0:
                self.counts[Fate.RESET_AFTER.value] += 1
                return Fate.RESET_AFTER
        for fate, name in _FATES:
            drawn -= getattr(self._sum, name)
            if drawn < 0:
                self.counts[fate.value] += 1
                return fate
        return Fate.FINE

    def way_s(self) -> float:
        """Draw the latency of one direction."""
        usual_s = 0.0005 + 0.002 * self.rng.random()
        return usual_s + self._more_s(self._sum.slow_s, "message slowed", 2)

    def answer_s(self) -> float:
        """Draw the additional time of the answer to a write."""
        return self._more_s(self._sum.answer_s, "answer to a write delayed")

    def page_s(self) -> float:
        """Draw the additional time of a page of a list."""
        return self._more_s(self._sum.page_s, "page slowed")

    def lag_s(self) -> float:
        """Draw how long an event of a watch takes."""
        usual_s = 0.001 + 0.02 * self.rng.random() ** 4
        return usual_s + self._more_s(self._sum.lag_s, "event of a watch delayed", 2)

    def _more_s(self, most_s: float, words: str, power: int = 1) -> float:
        if not most_s:
            return 0.0
        self.counts[words] += 1
        return float(most_s * self.rng.random() ** power)

    def is_duplicated(self) -> bool:
        """Draw whether an event comes twice."""
        return self._happens(self._sum.duplicate, "event of a watch duplicated")

    def is_swapped(self) -> bool:
        """Draw whether an event comes after the next."""
        return self._happens(self._sum.swap, "events of a watch reordered")

    def _happens(self, probability: float, words: str) -> bool:
        if not probability or self.rng.random() >= probability:
            return False
        self.counts[words] += 1
        return True
