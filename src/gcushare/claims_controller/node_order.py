"""How full every node that serves claims is, the order in which nodes should be filled, and their labels with it.

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
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import GcushareError, NotFoundError, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.core.quantities import parse_quantity
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.collections import Kept
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES
from gcushare.kube.write_rate import TokenBucket
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from gcushare.wire.dra.claims import AllocationResult, ResourceClaim
from gcushare.wire.dra.slices import MEMORY, ResourceSlice
from gcushare.wire.objects import Node as NodeObject

logger = logging.getLogger(__name__)

MAX_LEVEL = 9
"""The admission policy has a term for each level from 1 to this one."""
NEXT_NODES = 4
"""Unused nodes that have levels of their own, from ``NEXT_NODES`` downwards."""
_USED_LEVELS = MAX_LEVEL - NEXT_NODES
_AT_ONCE = 8
"""Requests in flight."""
_SETTLE_S = 0.1
"""How long changes are collected before the order is computed: the scheduler binds some ten pods in it."""
_WRITE_S = 5.0
"""A label of a node that takes longer is tried again."""


@dataclass(slots=True)
class Card:
    """One card of a node, in bytes."""

    size: int
    used: int = 0

    @property
    def free(self) -> int:
        """What claims can still take of it."""
        return max(0, self.size - self.used)


@dataclass(slots=True)
class Node:
    """The cards of a node by the name of their device, and the level of its label now."""

    cards: dict[str, Card] = field(default_factory=dict)
    level: int = 0

    @property
    def is_used(self) -> bool:
        """Whether any claim holds anything of it."""
        return any(card.used for card in self.cards.values())


def plan_levels(nodes: Mapping[str, Node]) -> dict[str, int]:
    """The levels that nodes should have, only where they differ from what they have.

    A full node keeps its level: no pod can go there, so a write would change nothing.
    """
    changes: dict[str, int] = {}
    unused: list[str] = []
    for name, node in nodes.items():
        if not node.is_used:
            unused.append(name)
        elif any(card.free for card in node.cards.values()):
            size = sum(card.size for card in node.cards.values())
            used = size - sum(card.free for card in node.cards.values())
            level = NEXT_NODES + 1 + min(_USED_LEVELS - 1, used * _USED_LEVELS // size)
            if level != node.level:
                changes[name] = level
    # Each level below those of used nodes goes to one node; a node that has one keeps it.
    open_levels = set(range(1, NEXT_NODES + 1))
    others: list[str] = []
    for name in sorted(unused):
        if nodes[name].level in open_levels and nodes[name].cards:
            open_levels.remove(nodes[name].level)
        else:
            others.append(name)
    for name in others:
        level = max(open_levels, default=0) if nodes[name].cards else 0
        open_levels.discard(level)
        if level != nodes[name].level:
            changes[name] = level
    return changes


class ClusterFill:
    """The nodes by name; ``on_change`` is called whenever something changed that their order may depend on.

    A node is computed again from its slices and claims when it is asked for, not at each event.
    """

    def __init__(self, drivers: Collection[str], on_change: Callable[[], None]) -> None:
        self._drivers = frozenset(drivers)
        self._on_change = on_change
        self.slices: Kept[ResourceSlice] = Kept(self._change_slice)
        self.claims: Kept[ResourceClaim] = Kept(self._change_claim)
        self.nodes: Kept[NodeObject] = Kept(self._change_node)
        self._slices_of: defaultdict[str, dict[str, ResourceSlice]] = defaultdict(dict)
        self._results_of: defaultdict[str, dict[str, tuple[AllocationResult, ...]]] = defaultdict(dict)
        self._levels: dict[str, int] = {}
        self._current: dict[str, Node] = {}
        self._stale: set[str] = set()

    def read(self) -> dict[str, Node]:
        """The nodes as of now; the caller only reads them."""
        for name in self._stale:
            if name in self._levels:
                self._current[name] = Node(self._cards_of(name), self._levels[name])
            else:
                self._current.pop(name, None)
        self._stale.clear()
        return self._current

    def _change_slice(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        for each in (before, after):
            if each is not None and each.spec.driver in self._drivers:
                if each is after:
                    self._slices_of[each.spec.pool.name][each.metadata.uid] = each
                else:
                    self._slices_of[each.spec.pool.name].pop(each.metadata.uid, None)
                self._mark(each.spec.pool.name)

    def _change_claim(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        old, new = (self._by_pool(each) for each in (before, after))
        if old == new:
            return
        uid = (after or before).metadata.uid  # type: ignore[union-attr]  # one of both is there
        for pool in old.keys() | new.keys():
            if pool in new:
                self._results_of[pool][uid] = new[pool]
            else:
                self._results_of[pool].pop(uid, None)
            self._mark(pool)

    def _by_pool(self, claim: ResourceClaim | None) -> dict[str, tuple[AllocationResult, ...]]:
        found: dict[str, tuple[AllocationResult, ...]] = {}
        if claim is not None:
            for driver in self._drivers:
                for result in claim.results_of(driver):
                    found[result.pool] = (*found.get(result.pool, ()), result)
        return found

    def _change_node(self, before: NodeObject | None, after: NodeObject | None) -> None:
        if after is None:
            if before is not None:
                self._levels.pop(before.metadata.name, None)
                self._mark(before.metadata.name)
            return
        name, text = after.metadata.name, after.metadata.labels.get(CLAIMS_ORDER_LABEL, "")
        is_level = len(text) == 1 and text.isascii() and text.isdigit() and int(text) <= MAX_LEVEL
        level = int(text) if is_level else 0
        if self._levels.get(name) != level:
            self._levels[name] = level
            self._mark(name)

    def _mark(self, name: str) -> None:
        self._stale.add(name)
        self._on_change()

    def _cards_of(self, pool: str) -> dict[str, Card]:
        """The cards by their device's name, with what claims hold of them."""
        slices = self._slices_of[pool].values()
        newest = max((each.spec.pool.generation for each in slices), default=0)
        cards = {
            device.name: Card(_bytes(device.capacity[MEMORY].value) if MEMORY in device.capacity else 0)
            for each in slices
            if each.spec.pool.generation == newest
            for device in each.spec.devices
        }
        for results in self._results_of[pool].values():
            for result in results:
                if (card := cards.get(result.device)) is not None:
                    card.used += _bytes(result.consumed_memory() or "0")
        return cards


def _bytes(quantity: str) -> int:
    try:
        return int(parse_quantity(quantity))
    except RemoteContractError:
        return 0  # only the order depends on it


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
                    node = await self._client.patch(NODES, name, patch, subresource="status", timeout_s=_WRITE_S)
                except NotFoundError:
                    continue  # the watch will show it
                except GcushareError as error:
                    self.counters.failed += 1
                    errors.append(error)
                else:
                    self.counters.written += 1
                    self.fill.nodes.answered(node)

        async with asyncio.TaskGroup() as tasks:
            for number in range(_AT_ONCE):
                tasks.create_task(work(), name=f"write the order of nodes, worker {number}")
        return errors[0] if errors else None
