"""Whether this replica serves: it holds the Lease, and its watch caches hold whatever the leader before it did.

A follower's watches may be half open or broken for hours while its Lease requests go through. Elected with such
caches it would give away what others hold, so:

- elected, it serves only once its watch caches hold what stood on the API server after the election (`catch_up`);
- while a watch has been silent for too long it stands aside, so that a replica that is current takes the Lease.

Standing aside ends after a while even if nothing was heard: where no other replica took the Lease, none is better. A
leader that no other has followed has bound every pod since its watch broke, and knows what it bound: it may refuse room
that came free, but it gives nothing away twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Protocol

from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.election import LeaderElector, LeasePort
from gcushare.kube.lease import LeaseTimes

logger = logging.getLogger(__name__)

STALE_SHARE = 1.2
"""Of the silence after which a watch counts as dead: time enough to open another, several times."""

_PROOF_S = 30.0
"""How long catching up may take before another replica should try: several times a list of 50,000 pods."""

_RETRY_S = 0.5
_AGAIN_S = 300.0
"""Between two times of standing aside: a replica that recovered since then gets its chance."""


class WatchCache(Protocol):
    """What a watch keeps; ``kube.reflector.Reflector`` is one."""

    @property
    def age_s(self) -> float | None:
        """Seconds since the API server last proved it current; None before the first proof."""
        ...

    async def catch_up(self) -> None:
        """Return once it holds whatever stood on the server when this was called; raises ``GcushareError``."""
        ...


class ReplicaLeadership:
    """The leadership of one of several replicas; ``run`` it in a task of its own once the watch caches are complete.

    ``stale_s``: the age from which a cache is no reason to lead. ``is_leader``, ``holder`` and ``holds`` answer as
    `ports.Leadership` says.
    """

    def __init__(
        self,
        lease: LeasePort,
        identity: str,
        caches: Mapping[str, WatchCache],
        *,
        times: LeaseTimes,
        stale_s: float,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._elector = LeaderElector(
            lease,
            identity,
            times=times,
            listener=self._note_change,
            stands=self._stands,
            clock=self._clock,
            rng=rng,
        )
        self._caches = caches
        self._stale_s = stale_s
        # The others see the Lease run out at their first look after its duration, counted from their last one.
        self._aside_s = times.duration_s + 3 * times.retry_s
        self._changed = asyncio.Event()
        self._proven_term = 0
        self._proving_since: float | None = None
        self._aside_since: float | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this replica serves."""
        return self._is_proven and self._elector.is_leader

    @property
    def holder(self) -> str:
        """Who holds the Lease, as far as is known."""
        return self._elector.holder

    @property
    def is_catching_up(self) -> bool:
        """Whether this replica was elected and does not serve yet."""
        return not self._is_proven and self._elector.is_leader

    def holds(self, margin_s: float) -> bool:
        """Whether this replica serves and no other can begin to within ``margin_s``."""
        return self._is_proven and self._elector.holds(margin_s)

    async def run(self) -> None:
        """Stand for election until cancelled, then give the Lease up; cancel it only after serving has stopped."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._elector.run(), name="stand for election")
            tasks.create_task(self._catch_up_after_elections(), name="catch up after elections")

    @property
    def _is_proven(self) -> bool:
        return self._proven_term == self._elector.term

    def _note_change(self, _leads: bool) -> None:
        self._changed.set()

    async def _catch_up_after_elections(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._proving_since = self._clock.monotonic()
            while self.is_catching_up:
                await self._catch_up(self._elector.term)
            self._proving_since = None

    async def _catch_up(self, term: int) -> None:
        started = self._clock.monotonic()
        failed = False
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, cache in self._caches.items():
                    tasks.create_task(cache.catch_up(), name=f"catch up with {name}")
        except* GcushareError as errors:
            failed = True
            logger.warning("elected, but cannot catch up yet %s", fields(reason=errors.exceptions[0]))
        if failed:
            await self._clock.sleep(_RETRY_S)
            return
        self._proven_term = term
        logger.info("watch caches are current %s", fields(ms=round((self._clock.monotonic() - started) * 1000)))

    def _stands(self) -> bool:
        now = self._clock.monotonic()
        problem = self._find_problem(now)
        if problem is None:
            self._aside_since = None
            return True
        if self._aside_since is None or now >= self._aside_since + _AGAIN_S:
            self._aside_since = now
            logger.warning(
                "standing aside for a replica that is current %s", fields(reason=problem, for_s=self._aside_s)
            )
        return now >= self._aside_since + self._aside_s

    def _find_problem(self, now: float) -> str | None:
        for name, cache in self._caches.items():
            age_s = cache.age_s
            if age_s is not None and age_s > self._stale_s:
                return f"the watch of {name} has been silent for {age_s:.0f} s"
        if self._proving_since is not None and now > self._proving_since + _PROOF_S:
            return f"catching up has taken {now - self._proving_since:.0f} s"
        return None
