"""One node at a time: the Lease whose holder may change its node's scheduler."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gcushare.kube.clock import Clock
from gcushare.kube.election import LeaderElector, LeasePort, Tenure
from gcushare.kube.lease import LeaseTimes

TURN_TIMES = LeaseTimes(duration_s=90, renew_deadline_s=20, retry_s=1)
"""A holder that is cut off acts for 20 s at most, the next one waits 90 s: a restart that the first began has ended by
then (`executing.RESTART_S`). A turn that ends well is given up at once, so only a crash costs the wait."""


class LeaseTurns:
    """Turns by one Lease: whoever holds it changes its node's scheduler."""

    def __init__(
        self,
        lease: LeasePort,
        identity: str,
        *,
        times: LeaseTimes = TURN_TIMES,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._lease = lease
        self._identity = identity
        self._times = times
        self._clock = clock
        self._rng = rng

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Tenure]:
        """Wait for the turn; ask what is yielded before every act, the turn may be lost at any moment."""
        mine = asyncio.Event()

        def listen(leading: bool) -> None:
            if leading:
                mine.set()

        elector = LeaderElector(
            self._lease, self._identity, times=self._times, listener=listen, clock=self._clock, rng=self._rng
        )
        running = asyncio.create_task(elector.run(), name="turn of this node")
        waiting = asyncio.create_task(mine.wait(), name="wait for the turn")
        try:
            await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            yield elector
        finally:
            # Cancelling the elector gives the Lease up, so that the next node need not wait it out.
            waiting.cancel()
            running.cancel()
            await asyncio.wait((running, waiting))
