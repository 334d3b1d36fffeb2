"""The Lease that lets one node of the cluster at a time change its scheduler."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from gcushare.core.lease_times import LeaseTimes
from gcushare.kube.clock import Clock
from gcushare.kube.election import LeaderElector, LeasePort, Tenure

ROLLOUT_TIMES = LeaseTimes(duration_s=90, renew_deadline_s=20, retry_s=1)
"""A holder that loses the API server acts for 20 s at most, and the next one waits 90 s: a restart that the first one
began has ended by then (`execute.RESTART_S`). A Lease is released after use, so only a crash costs this wait."""


@asynccontextmanager
async def hold_lease(
    lease: LeasePort,
    identity: str,
    *,
    times: LeaseTimes = ROLLOUT_TIMES,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    beat: Callable[[], None] = lambda: None,
) -> AsyncIterator[Tenure]:
    """Wait until this node holds the Lease, and release it at once after use.

    Ask the tenure before every step that changes the host, because the Lease may be lost at any moment. ``beat`` is
    called while this node waits, which may take as long as all other nodes together, and when it holds the Lease.
    """
    held = asyncio.Event()

    def on_change(leading: bool) -> None:
        if leading:
            held.set()

    elector = LeaderElector(lease, identity, times=times, listener=on_change, clock=clock, rng=rng)
    running = asyncio.create_task(elector.run(), name="rollout lease")
    waiting = asyncio.create_task(held.wait(), name="wait for the rollout lease")
    try:
        done: set[asyncio.Task[Any]] = set()
        while not done:
            done, _ = await asyncio.wait((running, waiting), timeout=times.retry_s, return_when=asyncio.FIRST_COMPLETED)
            beat()
        if running.done():
            running.result()
        yield elector
    finally:
        # Cancelling the elector releases the Lease, so that the next node does not wait until it expires.
        waiting.cancel()
        running.cancel()
        await asyncio.wait((running, waiting))
