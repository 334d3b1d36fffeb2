"""Writes on Nodes while this replica leads: what changes is collected, planned again, and written at a bounded rate.

A write names the version of the Node that the watch brought last. If the Node is newer, the API server refuses it, and
the Node is planned again once the watch has brought that version.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Literal

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.patches import Patch
from gcushare.kube.resources import NODES
from gcushare.kube.write_rate import TokenBucket
from gcushare.wire.objects import Node

logger = logging.getLogger(__name__)

_WRITES_PER_S = 20.0
_BURST = 100
_SETTLE_S = 0.1
"""How long changes are collected: the scheduler binds some ten pods in it, and an answer's watch event comes within."""
_WRITE_S = 5.0


class NodeWriter:
    """Writes for one purpose, which ``what`` names in the log. Set ``changed`` when there may be something to write.

    It may also be set when the leader may have changed. Tell it of each node that the watch brings, or that is gone.
    """

    def __init__(
        self, client: KubeClient, what: str, is_leader: Callable[[], bool], *, clock: Clock, rng: random.Random
    ) -> None:
        self._client = client
        self._what = what
        self._is_leader = is_leader
        self._clock = clock
        self._bucket = TokenBucket(_WRITES_PER_S, _BURST, clock)
        self._backoff = Backoff(BackoffPolicy(first_s=0.5), rng)
        self._versions: dict[str, str] = {}
        self._refused: set[str] = set()
        """Nodes with a refused write, until the watch brings a newer version."""
        self.changed = asyncio.Event()
        self.counters: Counter[str] = Counter()
        """What happened since the start, for metrics: written, failed."""

    def node_applied(self, node: Node) -> bool:
        """Use a Node's newest version; returns whether a write was refused because it was not known."""
        name = node.metadata.name
        self._versions[name] = node.metadata.resource_version
        was_refused = name in self._refused
        self._refused.discard(name)
        return was_refused

    def node_deleted(self, name: str) -> None:
        """Forget a node that is gone."""
        self._versions.pop(name, None)
        self._refused.discard(name)

    async def run(self, write_all: Callable[[], Awaitable[None]], complete: Callable[[], Awaitable[object]]) -> None:
        """Have ``write_all`` write until cancelled; it is called again after a wait if it raises ``GcushareError``.

        ``complete`` waits until all that is planned from is read.
        """
        while True:
            await complete()
            await self.changed.wait()
            await self._clock.sleep(_SETTLE_S)
            self.changed.clear()
            if not self._is_leader():
                continue
            try:
                await write_all()
            except GcushareError as failure:
                delay_s = self._backoff.next_delay_s(failure)
                facts = fields(what=self._what, error=failure, retry_s=round(delay_s, 1))
                logger.warning("nodes are not written yet %s", facts)
                await self._clock.sleep(delay_s)
                self.changed.set()
            else:
                self._backoff.reset()

    async def write(
        self, name: str, patch: Callable[[str], Patch], *, subresource: Literal["status"] | None = "status"
    ) -> bool:
        """Send what ``patch`` makes for the Node's version; False if it has to be planned again.

        By default through the status, which keeps the spec: the extender needs no right to change taints.

        Raises:
            GcushareError: the API server refused it, or did not answer.
        """
        version = self._versions.get(name, "")
        await self._bucket.take()
        if not self._is_leader():
            return False
        try:
            await self._client.patch(NODES, name, patch(version), subresource=subresource, timeout_s=_WRITE_S)
        except NotFoundError:
            return True  # It is gone, as the watch will show.
        except ConflictError:
            if self._versions.get(name, "") == version:
                self._refused.add(name)
            else:
                self.changed.set()  # The watch has brought it meanwhile.
            return False
        except GcushareError:
            self.counters["failed"] += 1
            raise
        self.counters["written"] += 1
        return True
