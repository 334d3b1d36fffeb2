"""What must not be, as both worlds report it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold, what was seen instead, and when since the beginning."""

    invariant: str
    words: str
    at_s: float
