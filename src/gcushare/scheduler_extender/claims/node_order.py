"""The order in which nodes that serve claims should be filled, and their labels with it.

kube-scheduler places claims on any node with room. The admission policy adds preferred node affinity terms to pods, one
per level of a node label, so nodes of a higher level are filled first. The order only has to be good, not current: the
scheduler alone decides what fits.

Nodes in use have the higher levels, the fullest first. A few unused nodes have the levels below, one node each: these
are opened one after the other, and not all at once while the labels of nodes in use are a moment behind.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.core.ledger import Ledger
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, is_at_least
from gcushare.kube.write_rate import TokenBucket
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from gcushare.wire.dra.claim_names import unit_bytes
from gcushare.wire.objects import Node

logger = logging.getLogger(__name__)

MAX_LEVEL = 9
"""The admission policy has a term for each level from 1 to this one."""
NEXT_NODES = 4
"""Unused nodes that have levels of their own, from ``NEXT_NODES`` downwards."""
_USED_LEVELS = MAX_LEVEL - NEXT_NODES
_AT_ONCE = 8
"""Requests in flight."""
_WRITES_PER_S = 20.0
"""Labels written per second, on average."""
_SETTLE_S = 0.1
"""How long changes are collected before the order is computed: the scheduler binds some ten pods in it."""
_WRITE_S = 5.0
"""A label of a node that takes longer is tried again."""


@dataclass(frozen=True, slots=True)
class NodeFill:
    """The bytes of all cards of a node, those that claims hold, and the level of its label now."""

    size: int
    used: int
    level: int = 0


def read_fill(ledgers: Iterable[Ledger], levels: Mapping[str, int]) -> dict[str, NodeFill]:
    """The nodes that serve claims, by name, with the cards of every vendor that they have."""
    found: dict[str, NodeFill] = {}
    for ledger in ledgers:
        for name, node in ledger.nodes.items():
            if node.known and node.serves_claims:
                other = found.get(name, NodeFill(0, 0))
                step = 0 if node.unit is None else unit_bytes(node.unit)
                used = other.used + min(node.used, node.total) * step
                found[name] = NodeFill(other.size + node.total * step, used, levels.get(name, 0))
    return found


def plan_levels(nodes: Mapping[str, NodeFill]) -> dict[str, int]:
    """The levels that nodes should have, only where they differ from what they have.

    A full node keeps its level: no pod can go there, so a write would change nothing.
    """
    changes: dict[str, int] = {}
    unused: list[str] = []
    for name, node in nodes.items():
        if not node.used:
            unused.append(name)
        elif node.used < node.size:
            level = NEXT_NODES + 1 + min(_USED_LEVELS - 1, node.used * _USED_LEVELS // node.size)
            if level != node.level:
                changes[name] = level
    # Each level below those of used nodes goes to one node; a node that has one keeps it.
    open_levels = set(range(1, NEXT_NODES + 1))
    others: list[str] = []
    for name in sorted(unused):
        if nodes[name].level in open_levels and nodes[name].size:
            open_levels.remove(nodes[name].level)
        else:
            others.append(name)
    for name in others:
        level = max(open_levels, default=0) if nodes[name].size else 0
        open_levels.discard(level)
        if level != nodes[name].level:
            changes[name] = level
    return changes


class NodeLevels:
    """The level of each node's label, as the watch of nodes or the answer to our own write has it.

    ``on_change`` is called when one changed.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self.by_name: dict[str, int] = {}
        self._seen: dict[str, str] = {}
        """By name of the node, the version that the watch brought last."""
        self._newer_answers: dict[str, str] = {}
        """By name of the node, the version of an answer that the watch has not reached."""

    def node_applied(self, node: Node) -> None:
        """Read the label of a node that the watch brought, unless our own write is newer."""
        name, version = node.metadata.name, node.metadata.resource_version
        self._seen[name] = version
        if name in self._newer_answers and not is_at_least(version, self._newer_answers[name]):
            return
        self._newer_answers.pop(name, None)
        self._set(node)

    def node_deleted(self, name: str) -> None:
        """Forget a node that is gone."""
        for known in (self._seen, self._newer_answers):
            known.pop(name, None)
        if self.by_name.pop(name, None) is not None:
            self._on_change()

    def on_written(self, node: Node) -> None:
        """Read the answer to our own write, unless the watch is as new or has shown the node's end."""
        name, version = node.metadata.name, node.metadata.resource_version
        if name in self._seen and not is_at_least(self._seen[name], version):
            self._newer_answers[name] = version
            self._set(node)

    def _set(self, node: Node) -> None:
        name, text = node.metadata.name, node.metadata.labels.get(CLAIMS_ORDER_LABEL, "")
        is_level = len(text) == 1 and text.isascii() and text.isdigit() and int(text) <= MAX_LEVEL
        level = int(text) if is_level else 0
        if self.by_name.get(name, 0) != level:
            self.by_name[name] = level
            self._on_change()


class OrderWriter:
    """Writes the labels of ``ledgers``' nodes while ``is_leader`` says so; ``run`` it once nodes and claims are read.

    ``changed`` is set when a ledger or a label changed; set it when the leader may have changed.
    """

    def __init__(
        self,
        client: KubeClient,
        ledgers: Iterable[Ledger],
        is_leader: Callable[[], bool],
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._ledgers = tuple(ledgers)
        self._is_leader = is_leader
        self._clock = clock
        self._bucket = TokenBucket(_WRITES_PER_S, max(_AT_ONCE, round(_WRITES_PER_S)), clock)
        self._backoff = Backoff(BackoffPolicy(first_s=0.5), rng)
        self.changed = asyncio.Event()
        self.levels = NodeLevels(self.changed.set)
        self.counters: Counter[str] = Counter()
        """What happened since the start, for metrics: written, failed."""
        for ledger in self._ledgers:
            ledger.listen(lambda _node: self.changed.set())

    def plan(self) -> dict[str, int]:
        """The levels to write now."""
        return plan_levels(read_fill(self._ledgers, self.levels.by_name))

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self.changed.wait()
            await self._clock.sleep(_SETTLE_S)
            self.changed.clear()
            if not self._is_leader():
                continue
            failure = await self._write_all(self.plan())
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
                    # Through the status, which keeps the spec: the extender needs no right to change taints.
                    node = await self._client.patch(NODES, name, patch, subresource="status", timeout_s=_WRITE_S)
                except NotFoundError:
                    continue  # the watch will show it
                except GcushareError as error:
                    self.counters["failed"] += 1
                    errors.append(error)
                else:
                    self.counters["written"] += 1
                    self.levels.on_written(node)

        async with asyncio.TaskGroup() as tasks:
            for number in range(_AT_ONCE):
                tasks.create_task(work(), name=f"write the order of nodes, worker {number}")
        return errors[0] if errors else None
