"""A process that ends at one of its writes: before the write has its effect, or after it and before its answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class Ended(BaseException):
    """The process is gone: nothing handles it, nothing is cleaned up."""


@dataclass
class CutOff:
    """Counts writes, and ends the process at write number ``at`` (from 1; 0 never does), or gives it an error."""

    at: int = 0
    has_effect: bool = False
    error: BaseException = field(default_factory=Ended)
    writes: int = 0

    @contextmanager
    def write(self) -> Iterator[None]:
        """Stand around a write's effect."""
        self.writes += 1
        if self.writes == self.at and not self.has_effect:
            raise self.error
        yield
        if self.writes == self.at:
            raise self.error


def every_cut_off(writes: int) -> Iterator[CutOff]:
    """Before and after each of so many writes."""
    for at in range(1, writes + 1):
        for has_effect in (False, True):
            yield CutOff(at, has_effect)
