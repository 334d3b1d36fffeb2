"""What all worlds share: a history, violations, and rounds of storms that calm follows."""

from __future__ import annotations

import hashlib
import logging
import random
from collections import Counter, deque
from collections.abc import Callable

from gcushare_playground.apiserver.storage import Change
from simulation.admission import AdmissionPolicies
from simulation.apiserver import ApiServer
from simulation.loop import START_S, SimulatedLoop
from simulation.schedule import Action
from simulation.store import Store
from simulation.transport import Gateway
from simulation.violation import Violation

MOST_LINES = 20_000


class RoundsWorld:
    """One run; ``digest`` identifies its history. A world adds what starts, acts, calms down, and must hold then."""

    def __init__(self, rng: random.Random, *, keeps_history: bool = True) -> None:
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.history: deque[str] = deque(maxlen=MOST_LINES)
        self._keeps_history = keeps_history
        self._digest = hashlib.blake2b(digest_size=16)
        self.loop = SimulatedLoop(lambda words: self.fail("no process ends by any input", words))
        self.store = Store(self._changed)
        self.policies = AdmissionPolicies(self.loop)
        self.gateway = Gateway(self.loop, ApiServer(self.store, rng.randrange, self.policies))

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

    @property
    def digest(self) -> str:
        """A hash of the history."""
        return self._digest.hexdigest()

    @property
    def hours(self) -> float:
        """The virtual time since the start."""
        return (self.loop.now_s - START_S) / 3600

    def play(self, actions: tuple[Action, ...], rounds: tuple[tuple[float, float], ...]) -> None:
        """Start, and live through the rounds: when each storm ends, and when the calm after it."""
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self.within(self._start)
        left = deque(actions)
        for storm_end_s, calm_end_s in rounds:
            while left and left[0].at_s <= storm_end_s:  # times are rounded, up to the end itself
                action = left.popleft()
                self.live_until(action.at_s)
                self.within(lambda action=action: self._begin(action))  # type: ignore[misc]
            self.live_until(storm_end_s)
            self.within(self._calm)
            self.live_until(calm_end_s)
            self.within(self._check_settled)

    def live_until(self, at_s: float) -> None:
        """Let the world go on, unless an invariant was violated."""
        if not self.loop.is_stopped:
            self.loop.run(START_S + at_s)

    def within(self, do: Callable[[], None]) -> None:
        """Do something in the world, unless an invariant was violated."""
        if not self.loop.is_stopped:
            with self.loop.entered():
                do()

    def _begin(self, action: Action) -> None:
        self.note(f"> {action.words()[11:]}")
        self._act(action)

    def _changed(self, change: Change) -> None:
        self.note(f"api: {change.type.lower()} {change.collection} {change.revision.key[1]} by {change.by}")
        self.gateway.publish(change)

    def _start(self) -> None:
        raise NotImplementedError

    def _act(self, action: Action) -> None:
        raise NotImplementedError

    def _calm(self) -> None:
        raise NotImplementedError

    def _check_settled(self) -> None:
        raise NotImplementedError
