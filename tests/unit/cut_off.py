"""A process that ends at one of its writes: before the write has its effect, or after it and before its answer.

A test plays what is to be cut off in the body of ``for cut_off in every_cut_off():``, in a world of its own each time
whose writes stand in ``cut_off.write()``, and then says what holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count


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


def every_cut_off(effects: Sequence[bool] = (False, True)) -> Iterator[CutOff]:
    """Before and after each write that the loop's body makes; the last one cuts nothing off, there being no more."""
    for at in count(1):
        for has_effect in effects:
            cut_off = CutOff(at, has_effect)
            yield cut_off
            if cut_off.writes < at:
                assert at > 1, "nothing was written"
                return
