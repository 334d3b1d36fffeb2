"""How many more nodes the waiting pods need: what fits is placed into present room, the rest on empty nodes of a class.

An autoscaler that adds up a node's allocatable units takes a pod for placed that fits no card. Here cards are chosen as
the extender chooses them. Pods are placed largest first on copies of the nodes, so the count is an upper bound that is
close to the least possible number, and nothing that is counted elsewhere changes. Node selectors, affinities, taints
and resources other than cards, CPU and memory are unknown.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import msgspec

from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE, Health, InventoryCard
from gcushare.core.errors import RemoteContractError
from gcushare.core.nodes import Assignment, CardGrant, NodeState, PodRef
from gcushare.core.packing.spare import Amounts
from gcushare.core.placement import POLICIES, choose_cards
from gcushare.core.requests import CardRequest

ANY_AMOUNTS = Amounts(sys.maxsize, sys.maxsize)
"""The CPU and memory of a class that no present node shows: no limit."""

MAX_KINDS = 256
"""Kinds of pods that are placed, the most common first; each is compared with every node."""

_MAX_CARDS = 64
_MAX_UNITS = 10_000_000
_CARDS = re.compile(r"([0-9]{1,2})x([0-9]{1,8})(?::(.+))?")
_SUFFIXES = {"": (SERVES_MEMORY,), "/whole": (SERVES_WHOLE,), "/both": BOTH_MODES}
CLASS_FORM = "CARDSxUNITS, such as 8x48 or 8x48:MODEL, with /whole or /both at the end for nodes that serve whole cards"

_rank_card = POLICIES["binpack"].rank_card


@dataclass(frozen=True, slots=True)
class PodKind:
    """What pods alike ask for.

    ``among``: the present nodes that they may use; None means all. The extender knows which kube-scheduler asked about.
    """

    request: CardRequest
    amounts: Amounts
    among: frozenset[str] | None = None

    @property
    def _size(self) -> tuple[int, ...]:
        """The order in which kinds are placed: the largest have the lowest key."""
        request, amounts = self.request, self.amounts
        units = sys.maxsize if request.whole else request.units
        return (-units, -request.cards, -amounts.cpu_milli, -amounts.memory_mib)


@dataclass(frozen=True, slots=True)
class NodesNeeded:
    """``nodes`` further nodes hold ``pods``; ``too_large`` pods fit on none of them, even if it is empty."""

    nodes: int = 0
    pods: int = 0
    too_large: int = 0


class NodeCount:
    """Counts for one moment: give it every present node, then ask about each class of new nodes.

    ``waiting`` counts the pods by kind. ``left_out`` are the pods of kinds above ``MAX_KINDS``; ``left`` are those
    that no present node has taken yet, the largest first.
    """

    def __init__(self, waiting: Mapping[PodKind, int]) -> None:
        counted = dict(Counter(waiting).most_common(MAX_KINDS))
        self.pods = sum(waiting.values())
        self.left_out = self.pods - sum(counted.values())
        self.left = dict(sorted(counted.items(), key=lambda item: item[0]._size))

    @property
    def fit_now(self) -> int:
        """Pods that present nodes have room for."""
        return self.pods - self.left_out - sum(self.left.values())

    def use_present(self, node: NodeState, spare: Amounts) -> None:
        """Place pods on a present node whose pods leave ``spare`` CPU and memory. It is not changed."""
        able = {kind: left for kind, left in self.left.items() if kind.among is None or node.name in kind.among}
        for kind, placed in _fill(node, spare, able).items():
            self.left[kind] -= placed
            if not self.left[kind]:
                del self.left[kind]

    def count_new(self, empty: NodeState, spare: Amounts) -> Iterator[NodesNeeded]:
        """Place the rest on nodes like an empty one. Yields after each node that differs; the last value counts."""
        left = {kind: pods for kind, pods in self.left.items() if _fits(empty, spare, kind)}
        found = NodesNeeded(too_large=sum(self.left.values()) - sum(left.values()))
        yield found
        while left:
            placed = _fill(empty, spare, left)
            # Equal nodes are filled alike as long as enough pods of each kind are left.
            times = min(left[kind] // pods for kind, pods in placed.items())
            left = {kind: rest for kind, pods in left.items() if (rest := pods - times * placed.get(kind, 0))}
            found = NodesNeeded(found.nodes + times, found.pods + times * sum(placed.values()), found.too_large)
            yield found


def _fits(node: NodeState, spare: Amounts, kind: PodKind) -> bool:
    asked = kind.amounts
    if asked.cpu_milli > spare.cpu_milli or asked.memory_mib > spare.memory_mib:
        return False
    return node.known and node.fits(kind.request)


def _fill(node: NodeState, spare: Amounts, wanted: Mapping[PodKind, int]) -> dict[PodKind, int]:
    """Place as many pods as fit on a copy of a node, in the order of ``wanted``; returns how many of each kind."""
    trial, numbers = node, count()
    placed: Counter[PodKind] = Counter()
    for kind, pods in wanted.items():
        request, asked = kind.request, kind.amounts
        while placed[kind] < pods and _fits(trial, spare, kind):
            if (chosen := choose_cards(trial, request, _rank_card)) is None:
                break
            grants = (CardGrant(s.index, s.total if request.whole else request.units, request.whole) for s in chosen)
            trial = node.copy() if trial is node else trial
            trial.add(Assignment(PodRef(f"trial-{next(numbers)}", "", ""), node.name, tuple(grants)))
            spare = Amounts(spare.cpu_milli - asked.cpu_milli, spare.memory_mib - asked.memory_mib)
            placed[kind] += 1
    return +placed


def empty_like(node: NodeState) -> NodeState:
    """A new node with cards of the same kinds: healthy, not cordoned, without pods."""
    cards = [
        msgspec.structs.replace(state.card, uuid="", health=Health.HEALTHY, cordoned=False, closures=())
        for _, state in sorted(node.cards.items())
        if state.card is not None
    ]
    twin = NodeState(node.name)
    twin.set_cards(cards, node.unit, node.modes)
    return twin


def name_class(node: NodeState) -> str:
    """The name of the nodes with cards like these, in ``CLASS_FORM``; parts of different cards are joined by ``+``."""
    kinds = Counter((state.total, state.card.model) for state in node.cards.values() if state.card is not None)
    parts = (f"{cards}x{units}{':' + model if model else ''}" for (units, model), cards in sorted(kinds.items()))
    suffix = next((suffix for suffix, modes in _SUFFIXES.items() if set(modes) == set(node.modes)), "")
    return "+".join(parts) + suffix


def parse_class(text: str) -> NodeState:
    """An empty node of a class that no present node shows.

    Raises:
        RemoteContractError: it is not in ``CLASS_FORM``.
    """
    suffix = next((each for each in ("/whole", "/both") if text.endswith(each)), "")
    cards: list[InventoryCard] = []
    for part in text.removesuffix(suffix).split("+"):
        found = _CARDS.fullmatch(part)
        number, units = (int(found[1]), int(found[2])) if found else (0, 0)
        if found is None or not 0 < number <= _MAX_CARDS - len(cards) or not 0 < units <= _MAX_UNITS:
            raise RemoteContractError(
                f"{text[:80]!r} is no node with cards and no class of nodes; accepted: a node's name, or {CLASS_FORM}"
            )
        cards += (
            InventoryCard(index=index, uuid="", memory_bytes=0, model=found[3] or "", units=units)
            for index in range(len(cards), len(cards) + number)
        )
    node = NodeState(text)
    node.set_cards(cards, None, _SUFFIXES[suffix])
    return node


def find_classes(nodes: Iterable[NodeState]) -> dict[str, NodeState]:
    """One node of each class, the first by name; nodes that serve only claims, or have no cards, are in none."""
    classes: dict[str, NodeState] = {}
    for node in sorted(nodes, key=lambda each: each.name):
        if node.known and node.total and (node.serves_memory or node.serves_whole):
            classes.setdefault(name_class(node), node)
    return classes
