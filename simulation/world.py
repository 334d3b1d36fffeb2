"""The world that every run has: time, an API server, a history, what is violated, and the rounds that are played in it.

It knows no one who acts in it.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gcushare.vendors import VENDORS_BY_NAME
from gcushare_playground.apiserver.storage import Change
from simulation.admission import AdmissionPolicies
from simulation.apiserver import ApiServer
from simulation.bugs import BUGS
from simulation.loop import START_S, SimulatedLoop
from simulation.schedule import Action, Schedule
from simulation.store import Store
from simulation.transport import Gateway
from simulation.views import View
from simulation.weather import Weather

MOST_LINES = 20_000
_SILENT = frozenset({"events", "leases", "secrets"})
"""Kinds whose changes are left out of a history that people read."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold, what was seen instead, and when since the beginning."""

    invariant: str
    words: str
    at_s: float


class World:
    """One run's. ``rng`` draws what the API server does, ``planted`` is the bug that was put in, ``digest`` identifies
    the history.
    """

    def __init__(self, rng: random.Random, planted: str, *, keeps_history: bool = True) -> None:
        self.planted = planted
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.history: deque[str] = deque(maxlen=MOST_LINES)
        self._keeps_history = keeps_history
        self._digest = hashlib.blake2b(digest_size=16)
        self._numbers = 0
        self.loop = SimulatedLoop(lambda words: self.fail("no process ends by any input", words))
        self.store = Store(self._changed)
        self.policies = AdmissionPolicies(self.loop)
        self.gateway = Gateway(self.loop, ApiServer(self.store, rng.randrange, self.policies))
        self.views: list[View] = []
        self.listeners: list[Callable[[Change], None]] = []
        """They hear of each write, after the streams and the views."""

    def note(self, words: str, *, is_shown: bool = True) -> None:
        """Write into the history."""
        line = f"{self.loop.now_s - START_S:9.3f}  {words}"
        self._digest.update(line.encode())
        if self._keeps_history and is_shown:
            self.history.append(line)

    def fail(self, invariant: str, words: str) -> None:
        """Record a violation and end the run."""
        self.note(f"VIOLATION of {invariant!r}: {words}")
        self.violations.append(Violation(invariant, words, self.loop.now_s - START_S))
        self.loop.is_stopped = True

    def next_number(self) -> int:
        """A new unique number."""
        self._numbers += 1
        return self._numbers

    @property
    def digest(self) -> str:
        """A hash of the history."""
        return self._digest.hexdigest()

    @property
    def hours(self) -> float:
        """The virtual time since the start."""
        return (self.loop.now_s - START_S) / 3600

    def live_until(self, at_s: float) -> None:
        """Let time pass, unless an invariant was violated."""
        if not self.loop.is_stopped:
            self.loop.run(START_S + at_s)

    def within(self, do: Callable[[], None]) -> None:
        """Do something in the world, unless an invariant was violated."""
        if not self.loop.is_stopped:
            with self.loop.entered():
                do()

    def _changed(self, change: Change) -> None:
        plural, where = change.collection, "/".join(change.revision.key).strip("/")
        words = f"api: {change.type.lower()} {plural} {where} at {change.version} by {change.by}"
        self.note(words, is_shown=plural not in _SILENT)
        self.gateway.publish(change)
        for view in list(self.views):
            if view.plural == plural:
                view.take(change)
        for listener in self.listeners:
            listener(change)


class ClusterWorld(World):
    """That of a cluster with cards: the settings of its run, and the weather of everyone who asks its API server."""

    def __init__(self, schedule: Schedule, *, keeps_history: bool = False) -> None:
        self.settings = schedule.settings
        super().__init__(self.rng("api"), schedule.planted, keeps_history=keeps_history)
        self.vendor = VENDORS_BY_NAME[self.settings.vendor]
        self.bugs = BUGS[schedule.planted]()
        self.weathers: dict[str, Weather] = {}

    def rng(self, name: str) -> random.Random:
        """The random generator of one part, so that omitting an action does not change other parts."""
        return random.Random(f"{self.settings.seed}/{name}")


class Actors(Protocol):
    """Everyone in a world: who starts, does what an action says, calms down, and is checked after that."""

    def start(self) -> None: ...

    def act(self, action: Action) -> None: ...

    def calm(self) -> None: ...

    def check_settled(self) -> None: ...


def play(world: World, actors: Actors, actions: tuple[Action, ...], rounds: tuple[tuple[float, float], ...]) -> None:
    """Start, and live through the rounds: when each storm ends, and when the calm after it."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    world.within(actors.start)
    left = deque(actions)
    for storm_end_s, calm_end_s in rounds:
        while left and left[0].at_s <= storm_end_s:  # times are rounded, up to the end itself
            action = left.popleft()
            world.live_until(action.at_s)
            world.within(lambda action=action: _begin(world, actors, action))  # type: ignore[misc]
        world.live_until(storm_end_s)
        world.within(actors.calm)
        world.live_until(calm_end_s)
        world.within(actors.check_settled)


def _begin(world: World, actors: Actors, action: Action) -> None:
    world.note(f"> {action.words()[11:]}")
    actors.act(action)
