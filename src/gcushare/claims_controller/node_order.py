"""In which order nodes should be filled: pure, from the devices in slices and what claims hold of them.

kube-scheduler places claims on any node with room. The admission policy adds preferred node affinity terms to pods, one
per level of a node label, so nodes of a higher level are filled first. The order only has to be good, not current: the
scheduler alone decides what fits.

Nodes in use have the higher levels, the fullest first. A few unused nodes have the levels below, one node each: these
are opened one after the other, and not all at once while the labels of nodes in use are a moment behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

MAX_LEVEL = 9
"""The admission policy has a term for each level from 1 to this one."""
NEXT_NODES = 4
"""Unused nodes that have levels of their own, from ``NEXT_NODES`` downwards."""
_USED_LEVELS = MAX_LEVEL - NEXT_NODES


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
    for name, level in _levels_of_unused(unused, nodes):
        if level != nodes[name].level:
            changes[name] = level
    return changes


def _levels_of_unused(unused: Iterable[str], nodes: Mapping[str, Node]) -> Iterator[tuple[str, int]]:
    """Give each level below those of used nodes to one node; a node that has one keeps it."""
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
        yield name, level
