"""Faults that can be switched on: what a network and a busy API server do to their clients.

A fault matches requests by method, path and user, for a number of requests or until it is switched off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Delay:
    """Answer late: a GET with what is there then, everything else after it was done."""

    seconds: float


@dataclass(frozen=True, slots=True)
class FailBefore:
    """Answer with an error and do nothing."""

    code: int = 500
    reason: str = "InternalError"
    message: str = "Internal error occurred: fault switched on"


@dataclass(frozen=True, slots=True)
class FailAfter:
    """Do what was asked, and answer with an error all the same."""

    code: int = 504
    reason: str = "Timeout"
    message: str = "Timeout: request did not complete within the allotted timeout"


@dataclass(frozen=True, slots=True)
class DropBefore:
    """Cut the connection and do nothing."""


@dataclass(frozen=True, slots=True)
class DropAfter:
    """Do what was asked and cut the connection instead of answering."""


@dataclass(frozen=True, slots=True)
class CutWatch:
    """Cut the connection of a watch, without a proper end, once it has carried this many events."""

    after_events: int = 0


Effect = Delay | FailBefore | FailAfter | DropBefore | DropAfter | CutWatch
E = TypeVar("E", Delay, FailBefore, FailAfter, DropBefore, DropAfter, CutWatch)


@dataclass(slots=True, eq=False)
class Fault:
    """A rule and how often it was applied."""

    effect: Effect
    path: str = ""
    """Regular expression searched in the path with its query; empty matches every path."""
    method: str = ""
    """HTTP method; empty matches every method."""
    user: str = ""
    """Name of the user who asks; empty matches every user."""
    count: int | None = None
    """How many requests it affects; None: all until it is switched off."""
    hits: int = 0

    def apply(self, method: str, path: str, user: str) -> bool:
        """Return whether the fault affects this request, and count it."""
        spent = self.count is not None and self.hits >= self.count
        if spent or self.method not in ("", method) or self.user not in ("", user) or not re.search(self.path, path):
            return False
        self.hits += 1
        return True


class FaultBoard:
    """The faults that are switched on."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def on(self, fault: Fault) -> Fault:
        """Switch a fault on and return it, for :meth:`off` and for reading how often it was applied."""
        self._faults.append(fault)
        return fault

    def off(self, fault: Fault) -> None:
        """Switch a fault off; one that is off already stays off."""
        if fault in self._faults:
            self._faults.remove(fault)

    def clear(self) -> None:
        """Switch everything off."""
        self._faults.clear()

    def apply(self, method: str, path: str, user: str) -> tuple[Effect, ...]:
        """Return the effects of all faults on a request, and count them."""
        watching = "watch=" in path
        candidates = (f for f in self._faults if watching or not isinstance(f.effect, CutWatch))
        return tuple(fault.effect for fault in candidates if fault.apply(method, path, user))


def first(effects: Iterable[Effect], kind: type[E]) -> E | None:
    """Return the first effect of a kind."""
    return next((effect for effect in effects if isinstance(effect, kind)), None)
