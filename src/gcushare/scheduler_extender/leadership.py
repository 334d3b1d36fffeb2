"""Decide whether this replica serves: it must hold the Lease, and its watch caches must be current.

A follower's watches may be broken for hours while its Lease requests succeed. If it were elected with such caches, it
would grant cards that other pods hold. So:

- after the election it serves only once its watch caches contain all that was on the API server then (`catch_up`);
- while a watch has been silent for too long it stands aside, so that a replica with current caches takes the Lease.

It stands aside for a limited time: if no other replica took the Lease, none is better. A leader without a successor has
bound every pod since its watch broke and knows what it bound. It may refuse room that is free again, but it grants
nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from gcushare.core.errors import GcushareError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.kube.clock import Clock
from gcushare.kube.election import ApiLease, LeaderElector, LeaseTimes

logger = logging.getLogger(__name__)

STALE_SHARE = 1.2
"""A share of the silence after which a watch counts as dead: long enough to open another one several times."""

_CATCH_UP_S = 30.0
"""How long catching up may take before another replica should try: several times a list of 50,000 pods."""

_RETRY_S = 0.5
_ASIDE_AGAIN_S = 300.0
"""The time from one standing aside to the next, so that a replica that recovered since then can lead."""


class NotReady(RetryableError):
    """No call can be answered yet: the watch caches of this replica are incomplete, or not current."""


class NotLeader(RetryableError):
    """Another replica serves; nothing was changed."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"this replica does not serve; the leader is {holder or 'not elected yet'}")


class Leadership(Protocol):
    """Whether this replica leads."""

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads; no other replica can be serving then."""

    @property
    def is_catching_up(self) -> bool:
        """Whether this replica is elected, but still reads what the leader before it did."""

    @property
    def holder(self) -> str:
        """The name of the replica that serves, as far as is known; empty if none does."""

    def holds(self, margin_s: float) -> bool:
        """Whether this replica leads, and no other can begin to within ``margin_s`` seconds."""


class AlwaysLeader:
    """The leadership of a replica that runs without an election."""

    is_leader = True
    is_catching_up = False
    holder = ""

    def holds(self, margin_s: float) -> bool:
        """Always, because there is no other replica."""
        return True


class Serving:
    """Whether this replica answers the scheduler: its watch caches are complete, and it leads."""

    def __init__(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.is_synced = False
        self.stopping = asyncio.Event()

    def is_serving(self) -> bool:
        """Whether a call of the scheduler may be answered."""
        return self.is_synced and self.leadership.is_leader

    def require(self) -> None:
        """Check that a call of the scheduler may be answered.

        Raises:
            NotReady, NotLeader: it is answered with 503, and the scheduler tries the pod again.
        """
        self.require_synced()
        if (obstacle := self.find_obstacle()) is not None:
            raise obstacle

    def find_obstacle(self) -> NotReady | NotLeader | None:
        """Why this replica does not answer the scheduler although its watch caches are complete; None if it does."""
        if self.leadership.is_leader:
            return None
        if self.leadership.is_catching_up:
            return NotReady("this replica was elected and reads what the leader before it did; try again in a moment")
        return NotLeader(self.leadership.holder)

    async def wait_for(self, change: Coroutine[None, None, None], timeout_s: float) -> bool:
        """Wait for a change, the end of serving or the timeout; returns whether the change came."""
        changed = asyncio.create_task(change, name="wait for a change")
        stopped = asyncio.create_task(self.stopping.wait(), name="wait for the end of serving")
        try:
            await asyncio.wait((changed, stopped), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            return changed.done()
        finally:
            for task in (changed, stopped):
                task.cancel()
            await asyncio.wait((changed, stopped))

    def require_synced(self) -> None:
        """Check that a request to read may be answered; replicas that do not lead answer it as well.

        Raises:
            NotReady: it is answered with 503.
        """
        if not self.is_synced:
            raise NotReady("nodes and pods are not read yet; try again in a moment")


class WatchCache(Protocol):
    """The cache of a watch; ``kube.reflector.Reflector`` is an implementation."""

    @property
    def age_s(self) -> float | None:
        """Seconds since the API server last proved it current; None before the first proof."""

    async def catch_up(self) -> None:
        """Return once it contains all that was on the server at the time of the call.

        Raises:
            GcushareError: the API server cannot tell.
        """


@dataclass(eq=False)
class ReplicaLeadership:
    """The `Leadership` of one of several replicas; ``run`` it in a task of its own once the watch caches are complete.

    ``stale_s``: a replica with a cache older than this stands aside. ``on_lead`` is called when it begins to lead,
    and when it leads on after a pause in the same term.
    """

    lease: ApiLease
    identity: str
    caches: Mapping[str, WatchCache]
    _: KW_ONLY
    times: LeaseTimes
    stale_s: float
    on_lead: Callable[[], None] = lambda: None
    clock: Clock
    rng: random.Random | None = None

    def __post_init__(self) -> None:
        self._elector = LeaderElector(
            self.lease,
            self.identity,
            times=self.times,
            listener=lambda _leads: self._changed.set(),
            stands=self._may_stand,
            clock=self.clock,
            rng=self.rng,
        )
        # The others find the Lease expired at their first check after its duration, counted from their last check.
        self._aside_s = self.times.duration_s + 3 * self.times.retry_s
        self._changed = asyncio.Event()
        self._current_term = 0
        self._catching_up_since: float | None = None
        self._aside_since: float | None = None

    @property
    def is_leader(self) -> bool:
        return self._is_current and self._elector.is_leader

    @property
    def holder(self) -> str:
        return self._elector.holder

    @property
    def is_catching_up(self) -> bool:
        return not self._is_current and self._elector.is_leader

    def holds(self, margin_s: float) -> bool:
        return self._is_current and self._elector.holds(margin_s)

    async def run(self) -> None:
        """Stand for election until cancelled, then give the Lease up; cancel it only after serving has stopped."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._elector.run(), name="stand for election")
            tasks.create_task(self._catch_up_after_elections(), name="catch up after elections")

    @property
    def _is_current(self) -> bool:
        return self._current_term == self._elector.term

    async def _catch_up_after_elections(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._catching_up_since = self.clock.monotonic()
            while self.is_catching_up:
                await self._catch_up(self._elector.term)
            self._catching_up_since = None
            if self.is_leader:
                self.on_lead()

    async def _catch_up(self, term: int) -> None:
        started = self.clock.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, cache in self.caches.items():
                    tasks.create_task(cache.catch_up(), name=f"catch up with {name}")
        except* GcushareError as errors:
            logger.warning("elected, but cannot catch up yet %s", fields(reason=errors.exceptions[0]))
        else:
            self._current_term = term
            logger.info("watch caches are current %s", fields(ms=round((self.clock.monotonic() - started) * 1000)))
            return
        await self.clock.sleep(_RETRY_S)

    def _may_stand(self) -> bool:
        now = self.clock.monotonic()
        problem = self._find_problem(now)
        if problem is None:
            self._aside_since = None
            return True
        if self._aside_since is None or now >= self._aside_since + _ASIDE_AGAIN_S:
            self._aside_since = now
            logger.warning(
                "standing aside for a replica that is current %s", fields(reason=problem, for_s=self._aside_s)
            )
        return now >= self._aside_since + self._aside_s

    def _find_problem(self, now: float) -> str | None:
        for name, cache in self.caches.items():
            age_s = cache.age_s
            if age_s is not None and age_s > self.stale_s:
                return f"the watch of {name} has been silent for {age_s:.0f} s"
        if self._catching_up_since is not None and now > self._catching_up_since + _CATCH_UP_S:
            return f"catching up has taken {now - self._catching_up_since:.0f} s"
        return None
