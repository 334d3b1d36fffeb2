"""Write the order of nodes into their labels, only where it changed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from gcushare.claims_controller.node_order import ClusterFill, plan_levels
from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES
from gcushare.kube.write_rate import TokenBucket
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL

logger = logging.getLogger(__name__)

_AT_ONCE = 8
"""Requests in flight."""
_SETTLE_S = 0.1
"""How long changes are collected before the order is computed: the scheduler binds some ten pods in it."""

_WRITE_S = 5.0
"""A label of a node that takes longer is tried again."""


@dataclass(slots=True)
class OrderCounters:
    """What happened since the start, for metrics."""

    written: int = 0
    failed: int = 0


class OrderWriter:
    """Follows ``fill`` while ``is_leader`` says so; ``run`` it in a task of its own once the watches are complete.

    Set ``changed`` when the fill or the leader may have changed.
    """

    def __init__(
        self,
        client: KubeClient,
        fill: ClusterFill,
        changed: asyncio.Event,
        is_leader: Callable[[], bool],
        *,
        clock: Clock,
        rng: random.Random,
        rate_per_s: float,
    ) -> None:
        self._client = client
        self.fill = fill
        self.changed = changed
        self._is_leader = is_leader
        self._clock = clock
        self._bucket = TokenBucket(rate_per_s, max(_AT_ONCE, round(rate_per_s)), clock)
        self._backoff = Backoff(BackoffPolicy(first_s=0.5), rng)
        self.counters = OrderCounters()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self.changed.wait()
            await self._clock.sleep(_SETTLE_S)
            self.changed.clear()
            if not self._is_leader():
                continue
            failure = await self._write_all(plan_levels(self.fill.read()))
            if failure is None:
                self._backoff.reset()
                continue
            delay_s = self._backoff.next_delay_s(failure)
            logger.warning("nodes' order not written %s", fields(error=failure, retry_s=round(delay_s, 1)))
            await self._clock.sleep(delay_s)
            self.changed.set()

    async def _write_all(self, levels: dict[str, int]) -> GcushareError | None:
        """Write these levels, the highest first; returns one of the errors, if there were any."""
        errors: list[GcushareError] = []
        queue = sorted(levels.items(), key=lambda item: (item[1], item[0]))

        async def work() -> None:
            while queue and not errors and self._is_leader():
                name, level = queue.pop()
                await self._bucket.take()
                labels = {CLAIMS_ORDER_LABEL: str(level) if level else None}
                patch = Patch(PatchKind.MERGE, {"metadata": {"labels": labels}})
                try:
                    # Through the status, which keeps the spec: the controller needs no right to change taints.
                    await self._client.patch(NODES, name, patch, subresource="status", timeout_s=_WRITE_S)
                except NotFoundError:
                    continue  # the watch will show it
                except GcushareError as error:
                    self.counters.failed += 1
                    errors.append(error)
                else:
                    self.counters.written += 1
                    self.fill.on_level_written(name, level)

        async with asyncio.TaskGroup() as tasks:
            for number in range(_AT_ONCE):
                tasks.create_task(work(), name=f"write the order of nodes, worker {number}")
        return errors[0] if errors else None
