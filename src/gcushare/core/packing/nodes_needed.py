"""How many more nodes the waiting pods need: what fits is placed into present room, the rest on empty nodes of a class.

An autoscaler that adds up a node's allocatable units takes a pod for placed that fits no card. Here cards are chosen as
the extender chooses them. Pods are placed largest first on copies of the nodes, so the count is an upper bound that is
close to the least possible number, and nothing that is counted elsewhere changes. Of pods' rules those count that
``core.node_rules`` knows; affinity to pods, spreading and resources other than cards, CPU and memory do not.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import count

import msgspec

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE, Health, InventoryCard
from gcushare.core.errors import RemoteContractError
from gcushare.core.node_rules import NO_RULES, NodePlace, NodeRules
from gcushare.core.nodes import NodeState
from gcushare.core.other_resources import Amounts
from gcushare.core.placement import POLICIES, choose_cards
from gcushare.core.requests import CardRequest

ANY_AMOUNTS = Amounts(sys.maxsize, sys.maxsize)
"""The CPU and memory of a class that no present node shows: no limit."""

MAX_KINDS = 256
"""Kinds of pods that are placed, the most common first; each is compared with every node."""

_MAX_CARDS = 64
_MAX_UNITS = 10_000_000
_CARDS = re.compile(r"([0-9]{1,2})x([0-9]{1,8})(?::(.+))?")
_MODELS_AND_MODE = re.compile(r":[^+/]*|/\w+$")
_SUFFIXES = {"": (SERVES_MEMORY,), "/whole": (SERVES_WHOLE,), "/both": BOTH_MODES}
_HOSTNAME = "kubernetes.io/hostname"
CLASS_FORM = "CARDSxUNITS, such as 8x48 or 8x48:MODEL, with /whole or /both at the end for nodes that serve whole cards"

_rank_card = POLICIES["binpack"].rank_card


@dataclass(frozen=True, slots=True)
class PodKind:
    """What pods alike ask for."""

    request: CardRequest
    amounts: Amounts
    rules: NodeRules = NO_RULES

    def may_run_on(self, place: NodePlace) -> bool:
        """Whether its rules leave it such a node."""
        return self.rules.find_obstacle(place) is None

    @property
    def _size(self) -> tuple[int, ...]:
        """The order in which kinds are placed: the largest have the lowest key."""
        request, amounts = self.request, self.amounts
        units = sys.maxsize if request.whole else request.units
        return (-units, -request.cards, -amounts.cpu_milli, -amounts.memory_mib)


@dataclass(frozen=True, slots=True)
class NodesNeeded:
    """``nodes`` further nodes hold ``pods``; ``too_large`` pods can have none of them, even if it is empty."""

    nodes: int = 0
    pods: int = 0
    too_large: int = 0


class NodeCount:
    """Counts for one moment: give it every present node, then ask about each class of new nodes.

    ``waiting`` counts the pods by kind. ``left_out`` are the pods of kinds above ``MAX_KINDS``; ``left`` are those
    that no present node has taken yet, by kind, the largest first; ``filled`` names the present nodes that took some.
    """

    def __init__(self, waiting: Mapping[PodKind, int]) -> None:
        counted = Counter(waiting).most_common(MAX_KINDS)
        self.pods = sum(waiting.values())
        self.left_out = self.pods - sum(pods for _, pods in counted)
        self.left = sorted(counted, key=lambda item: item[0]._size)
        self.filled = set[str]()

    @property
    def fit_now(self) -> int:
        """Pods that present nodes have room for."""
        return self.pods - self.left_out - sum(pods for _, pods in self.left)

    def use_present(self, node: NodeState, spare: Amounts, place: NodePlace) -> None:
        """Place pods on a present node, which is not changed. Its pods leave ``spare`` CPU and memory."""
        wanted = [(kind, pods if kind.may_run_on(place) else 0) for kind, pods in self.left]
        if any(placed := _fill(node, spare, wanted)):
            self.filled.add(node.name)
        self.left = _subtract(self.left, placed, 1)

    def count_new(self, empty: NodeState, spare: Amounts, places: Collection[NodePlace]) -> NodesNeeded:
        """Place the rest on nodes like an empty one; if there are ``places``, the pods that may run on one of them."""
        left = [
            (kind, pods)
            for kind, pods in self.left
            if _fits(empty, spare, kind) and (not places or any(map(kind.may_run_on, places)))
        ]
        found = NodesNeeded(too_large=sum(pods for _, pods in self.left) - sum(pods for _, pods in left))
        while left:
            placed = _fill(empty, spare, left)
            # Equal nodes are filled alike as long as enough pods of each kind are left.
            times = min(pods // taken for (_, pods), taken in zip(left, placed, strict=True) if taken)
            left = _subtract(left, placed, times)
            found = NodesNeeded(found.nodes + times, found.pods + times * sum(placed), found.too_large)
        return found


def _subtract(left: Iterable[tuple[PodKind, int]], placed: Iterable[int], times: int) -> list[tuple[PodKind, int]]:
    both = zip(left, placed, strict=True)
    return [(kind, rest) for (kind, pods), taken in both if (rest := pods - times * taken)]


def _fits(node: NodeState, spare: Amounts, kind: PodKind) -> bool:
    asked = kind.amounts
    if asked.cpu_milli > spare.cpu_milli or asked.memory_mib > spare.memory_mib:
        return False
    return node.known and node.fits(kind.request)


def _fill(node: NodeState, spare: Amounts, wanted: Iterable[tuple[PodKind, int]]) -> list[int]:
    """Place as many pods as fit on a copy of a node, in the order of ``wanted``; returns how many of each kind."""
    trial, numbers, result = node, count(), []
    for kind, pods in wanted:
        request, asked, placed = kind.request, kind.amounts, 0
        while placed < pods and _fits(trial, spare, kind):
            if (chosen := choose_cards(trial, request, _rank_card)) is None:
                break
            grants = tuple(state.grant(request) for state in chosen)
            trial = node.copy() if trial is node else trial
            trial.add(Assignment(PodRef(f"trial-{next(numbers)}", "", ""), node.name, grants, apart=request.apart))
            spare = Amounts(spare.cpu_milli - asked.cpu_milli, spare.memory_mib - asked.memory_mib)
            placed += 1
        result.append(placed)
    return result


def place_like(place: NodePlace) -> NodePlace:
    """What rules say of a new node like this one: its pool's labels and taints, not what is of this machine alone."""
    labels = {key: value for key, value in place.labels.items() if key != _HOSTNAME}
    taints = tuple(taint for taint in place.taints if not taint.passes)
    return NodePlace("", labels, taints)


def empty_like(node: NodeState) -> NodeState:
    """A new node with cards of the same kinds: healthy, not cordoned, without pods."""
    cards = [
        msgspec.structs.replace(card, uuid="", health=Health.HEALTHY, cordoned=False, closures=())
        for card in node.present_cards
    ]
    twin = NodeState(node.name)
    twin.set_cards(cards, node.unit, node.modes)
    twin.is_odd = node.is_odd
    return twin


def name_class(node: NodeState) -> str:
    """The name of the nodes with cards like these, in ``CLASS_FORM``; parts of different cards are joined by ``+``."""
    kinds = Counter((card.units, card.model) for card in node.present_cards)
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
                f"{text[:80]!r} is neither a node with cards nor a class of nodes; accepted: a node's name, or "
                f"{CLASS_FORM}"
            )
        cards += (
            InventoryCard(index=index, uuid="", memory_bytes=0, model=found[3] or "", units=units)
            for index in range(len(cards), len(cards) + number)
        )
    node = NodeState(text)
    node.set_cards(cards, None, _SUFFIXES[suffix])
    return node


class NodeClasses:
    """The present nodes by class, in order of name. Nodes that serve only claims are in none."""

    def __init__(self) -> None:
        self._classes: dict[str, dict[str, NodeState]] = {}
        self._names: dict[tuple[object, ...], str] = {}
        """Names of classes by what decides on them in the order of the cards: naming each node takes 30 us."""

    def add(self, node: NodeState) -> None:
        """Add a node."""
        if not (node.known and node.total and (node.serves_memory or node.serves_whole)):
            return
        key = (node.modes, *((card.units, card.model) for card in node.present_cards))
        if (name := self._names.get(key)) is None:
            name = self._names[key] = name_class(node)
        self._classes.setdefault(name, {})[node.name] = node

    def choose(self, like: str) -> dict[str, list[NodeState]]:
        """The classes asked about, with their nodes.

        ``like``: a node, which is the first of its class then, or a class, which may have no nodes; empty for every
        class. A class without a model or mode stands for those of any.

        Raises:
            RemoteContractError: ``like`` is none of these.
        """
        chosen = {
            name: alike
            for name, alike in self._classes.items()
            if like in ("", name, _MODELS_AND_MODE.sub("", name)) or like in alike
        }
        if like and not chosen:
            return {name_class(parse_class(like)): []}
        found = {name: [alike[each] for each in sorted(alike)] for name, alike in sorted(chosen.items())}
        for name, alike in chosen.items():
            if like in alike:
                found[name].insert(0, found[name].pop(found[name].index(alike[like])))
        return found
