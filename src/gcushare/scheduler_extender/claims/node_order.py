"""The order in which nodes that serve claims should be filled, and their labels with it.

kube-scheduler places claims on any node with room. The admission policy adds preferred node affinity terms to pods, one
per level of a node label, so nodes of a higher level are filled first. The order only has to be good, not current: the
scheduler alone decides what fits.

Nodes in use have the higher levels, the fullest first. A few unused nodes have the levels below, one node each: these
are opened one after the other, and not all at once while the labels of nodes in use are a moment behind.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from gcushare.core.ledger import Ledger
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.patches import Patch, PatchKind
from gcushare.scheduler_extender.node_writer import NodeWriter
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from gcushare.wire.dra.claim_names import unit_bytes
from gcushare.wire.objects import Node

MAX_LEVEL = 9
"""The admission policy has a term for each level from 1 to this one."""
NEXT_NODES = 4
"""Unused nodes that have levels of their own, from ``NEXT_NODES`` downwards."""
_USED_LEVELS = MAX_LEVEL - NEXT_NODES


@dataclass(frozen=True, slots=True)
class NodeFill:
    """The bytes of all cards of a node, those that claims hold, and the level of its label now."""

    size: int
    used: int
    level: int = 0


def read_fill(
    ledgers: Iterable[Ledger], levels: Mapping[str, int], closed: Collection[str] = ()
) -> dict[str, NodeFill]:
    """The nodes that serve claims, by name, with the cards of all vendors; a ``closed`` node has none."""
    found: dict[str, NodeFill] = {}
    for ledger in ledgers:
        for name, node in ledger.nodes.items():
            if node.known and node.serves_claims:
                other = found.get(name, NodeFill(0, 0))
                step = 0 if node.unit is None or name in closed else unit_bytes(node.unit)
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


class OrderWriter:
    """Observes nodes and ``ledgers``, and writes the labels while ``is_leader`` says so.

    Call ``wake`` when the leader may have changed.
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
        self._ledgers = tuple(ledgers)
        self._writer = NodeWriter(client, "the order of nodes", is_leader, clock=clock, rng=rng)
        self.counters = self._writer.counters
        self.wake = self._writer.changed.set
        self.levels: dict[str, int] = {}
        """The level of each node's label, as the watch has it, by name of the node."""
        self.cordoned = set[str]()
        for ledger in self._ledgers:
            ledger.listen(lambda _node: self.wake())

    def node_applied(self, node: Node) -> None:
        """Read the label of a node."""
        name, text = node.metadata.name, node.metadata.labels.get(CLAIMS_ORDER_LABEL, "")
        is_level = len(text) == 1 and text.isascii() and text.isdigit() and int(text) <= MAX_LEVEL
        level, is_closed = int(text) if is_level else 0, node.spec.unschedulable
        is_changed = self.levels.get(name, 0) != level or is_closed != (name in self.cordoned)
        (self.cordoned.add if is_closed else self.cordoned.discard)(name)
        if self._writer.node_applied(node) or is_changed:
            self.levels[name] = level
            self.wake()

    def node_deleted(self, name: str) -> None:
        """Forget a node that is gone."""
        self._writer.node_deleted(name)
        self.cordoned.discard(name)
        if self.levels.pop(name, None) is not None:
            self.wake()

    def plan(self) -> dict[str, int]:
        """The levels to write now."""
        found = read_fill(self._ledgers, self.levels, self.cordoned)
        moved_back = {name: NodeFill(0, 0, level) for name, level in self.levels.items() if name not in found}
        return plan_levels(found | moved_back)

    async def run(self, complete: Callable[[], Awaitable[object]]) -> None:
        """Write until cancelled. ``complete`` waits until nodes and claims are read."""
        await self._writer.run(self._write_all, complete)

    async def _write_all(self) -> None:
        for name, level in sorted(self.plan().items(), key=lambda item: (-item[1], item[0])):
            await self._writer.write(name, partial(_label_patch, level))


def _label_patch(level: int, version: str) -> Patch:
    labels = {CLAIMS_ORDER_LABEL: str(level) if level else None}
    return Patch(PatchKind.MERGE, {"metadata": {"resourceVersion": version, "labels": labels}})
