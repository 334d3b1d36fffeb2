"""Why a request fits nowhere, with numbers: per kind of node, what is free, what would help, and whether it ever could.

The same explanation is shown at the explain endpoint, in the pod's Event and in the log. Nodes are added one by one, so
that whoever explains 5,000 of them can give others a turn in between.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gcushare.core.nodes import CardState, NodeState
from gcushare.core.preemption import Victim, choose_victims, rank_victims
from gcushare.core.requests import CardRequest

MAX_BEST_CARDS = 3
"""Cards named per class of nodes: the first says how near it is, the others whether that is one card's luck."""

MAX_EXAMPLES = 3
MAX_REMEDIES_TRIED = 32
"""Nodes on which the pods that would have to end are sought: those that lack least."""


class Verdict(enum.Enum):
    """Why a node cannot hold a request; in the order in which a person can do something about it."""

    FITS = "room"
    FRAGMENTED = "enough free memory, but not in one card"
    FULL = "too little free memory"
    IN_USE = "too few cards that nobody uses"
    UNUSABLE = "the cards that are large enough are sick or cordoned"
    NOT_ALLOWED = "no card that the pod's annotations allow"
    TOO_SMALL = "no card that is large enough"
    TOO_FEW = "fewer cards than the pod asks for"
    NO_WHOLE_CARDS = "no whole cards are served there (--mode of its device plugin)"
    NO_MEMORY = "only whole cards are served there (--mode of its device plugin)"
    NO_CARDS = "no cards, or none that can be read"


HOPEFUL = frozenset({Verdict.FITS, Verdict.FRAGMENTED, Verdict.FULL, Verdict.IN_USE})
"""The verdicts of nodes that hold the request now, or would if pods ended."""


@dataclass(frozen=True, slots=True, order=True)
class FreeCard:
    """What one card could still give, all of it to a request for whole cards; orders by units."""

    units: int
    node: str
    index: int


@dataclass(frozen=True, slots=True)
class NodeClass:
    """The nodes with the same cards and the same verdict; ``cards`` are the sizes, smallest first, of one of them.

    ``free`` and ``total`` are units; ``cards_free``: how many of all their cards could give anything to this request.
    """

    verdict: Verdict
    cards: tuple[int, ...]
    nodes: int
    examples: tuple[str, ...]
    best: tuple[FreeCard, ...]
    free: int
    total: int
    cards_free: int = 0

    @property
    def cards_total(self) -> int:
        return self.nodes * len(self.cards)


@dataclass(frozen=True, slots=True)
class Remedy:
    """Ending these pods makes the request fit on this node."""

    node: str
    victims: tuple[Victim, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What keeps a request from fitting, or where it fits.

    ``largest_now`` and ``largest_ever``: the most units that one allowed card could give now, and if every pod ended;
    for whole cards, the most such cards of one node.
    """

    request: CardRequest
    classes: tuple[NodeClass, ...]
    largest_now: int
    largest_ever: int
    remedy: Remedy | None

    @property
    def nodes_fit(self) -> int:
        return sum(each.nodes for each in self.classes if each.verdict is Verdict.FITS)

    @property
    def can_ever_fit(self) -> bool:
        """Whether it fits now, or would if pods ended."""
        return any(each.verdict in HOPEFUL for each in self.classes)

    @property
    def best(self) -> tuple[FreeCard, ...]:
        """The cards with most room, best first."""
        found = sorted((card for each in self.classes for card in each.best), key=_best_first)
        return tuple(found[:MAX_BEST_CARDS])


class Explainer:
    """Gathers one explanation: ``add`` every node, then ``finish``."""

    def __init__(self, request: CardRequest) -> None:
        self._request = request
        self._classes: dict[tuple[Verdict, tuple[int, ...]], _Gathered] = {}
        self._near: list[tuple[int, str, NodeState]] = []
        self._largest_now = self._largest_ever = 0

    def add(self, node: NodeState) -> None:
        """Take one node into account."""
        allowed = [state for state in node.cards.values() if _is_allowed(state, self._request)]
        verdict = judge(node, self._request)
        sizes = tuple(sorted(state.total for state in node.cards.values() if state.card is not None))
        gathered = self._classes.setdefault((verdict, sizes), _Gathered())
        gathered.add(node, self._request)
        rooms = [_room(state, self._request) for state in allowed]
        sizes_ever = [state.total for state in allowed if _can_ever_hold(state, self._request)]
        if self._request.whole:
            self._largest_now = max(self._largest_now, sum(map(bool, rooms)))
            self._largest_ever = max(self._largest_ever, len(sizes_ever))
        else:
            self._largest_now = max(self._largest_now, *rooms, 0)
            self._largest_ever = max(self._largest_ever, *sizes_ever, 0)
        if verdict in HOPEFUL and verdict is not Verdict.FITS:
            nearness = sum(map(bool, rooms)) if self._request.whole else max(rooms, default=0)
            entry = (nearness, node.name, node)
            push = heapq.heappush if len(self._near) < MAX_REMEDIES_TRIED else heapq.heappushpop
            push(self._near, entry)

    def finish(self) -> Explanation:
        """Return the explanation; seeks the pods that would have to end."""
        ordered = sorted(self._classes.items(), key=lambda item: (_ORDER[item[0][0]], -item[1].nodes, item[0][1]))
        classes = tuple(gathered.close(verdict, cards) for (verdict, cards), gathered in ordered)
        return Explanation(self._request, classes, self._largest_now, self._largest_ever, self._find_remedy())

    def _find_remedy(self) -> Remedy | None:
        remedies = []
        for _, name, node in self._near:
            pods = [Victim(held.pod) for held in node.assignments.values()]
            if chosen := choose_victims(node, self._request, pods):
                remedies.append(Remedy(name, chosen))
        return min(remedies, key=lambda remedy: (rank_victims(remedy.victims), remedy.node), default=None)


def judge(node: NodeState, request: CardRequest) -> Verdict:
    """Say why a node cannot hold a request, or that it can."""
    if not node.known or not any(state.card is not None for state in node.cards.values()):
        return Verdict.NO_CARDS
    if node.fits(request):
        return Verdict.FITS
    if not node.serves(request):
        return Verdict.NO_WHOLE_CARDS if request.whole else Verdict.NO_MEMORY
    allowed = [state for state in node.cards.values() if _is_allowed(state, request)]
    if len(allowed) < request.cards:
        return Verdict.NOT_ALLOWED if request.selection is not None else Verdict.TOO_FEW
    large = [state for state in allowed if state.total >= max(1, request.units)]
    if len(large) < request.cards:
        return Verdict.TOO_SMALL
    if sum(state.card is not None and state.card.is_usable for state in large) < request.cards:
        return Verdict.UNUSABLE
    if request.whole:
        return Verdict.IN_USE
    if sum(state.grantable for state in allowed) >= request.units * request.cards:
        return Verdict.FRAGMENTED
    return Verdict.FULL


def describe_request(request: CardRequest) -> str:
    """Say what a request needs: "needs 12 in one card"."""
    if request.whole:
        return f"needs {request.cards} whole card{'s' if request.cards > 1 else ''}"
    return (
        f"needs {request.units} in one card"
        if request.cards == 1
        else (f"needs {request.units} in each of {request.cards} cards")
    )


def describe_cards(best: Sequence[FreeCard], *, whole: bool = False) -> str:
    """Name the cards with most room: "best card free: 7 (card 2 of node-1), 4 (card 0 of node-3)"."""
    if whole:
        named = ", ".join(f"card {card.index} of {card.node}" for card in best)
        return f"whole cards free: {named}" if named else "no whole card is free"
    words = ", ".join(f"{card.units} (card {card.index} of {card.node})" for card in best)
    return f"best card free: {words}" if words else "no card is free"


def summarise(explanation: Explanation) -> str:
    """Say it in one line, the most important first, for an Event and the log."""
    parts = [describe_request(explanation.request)]
    if explanation.request.selection is not None:
        parts[0] += " among the cards that the pod allows"
    parts.append(describe_room(explanation.request, explanation.best, explanation.classes))
    counts = _count_by(explanation, lambda each: each.verdict)
    parts += [f"{count} node{'s' if count > 1 else ''}: {verdict.value}" for verdict, count in counts.items()]
    parts.append(describe_help(explanation))
    return "; ".join(parts)


def describe_room(request: CardRequest, best: Sequence[FreeCard], classes: Sequence[NodeClass]) -> str:
    """Say what is free on nodes: the best cards and the sum, in units, or for whole cards in cards."""
    free, total = sum(each.free for each in classes), sum(each.total for each in classes)
    if request.whole:
        free, total = sum(each.cards_free for each in classes), sum(each.cards_total for each in classes)
    return f"{describe_cards(best, whole=request.whole)}; total free {free} of {total}"


def describe_help(explanation: Explanation) -> str:
    """Say what would make the request fit, or that nothing would."""
    if explanation.nodes_fit:
        return "it fits now"
    if not explanation.can_ever_fit:
        return _describe_impossible(explanation)
    now = f"the largest request that fits now is {explanation.largest_now}"
    if explanation.request.whole:
        now = f"{now} whole card{'s' if explanation.largest_now != 1 else ''}"
    if explanation.remedy is None:
        return now
    ended = ", ".join(str(victim.pod) for victim in explanation.remedy.victims)
    return f"{now}; it would fit on {explanation.remedy.node} if these pods ended: {ended}"


def _describe_impossible(explanation: Explanation) -> str:
    whole, ever = explanation.request.whole, explanation.largest_ever
    if not ever and any(each.verdict in (Verdict.NO_WHOLE_CARDS, Verdict.NO_MEMORY) for each in explanation.classes):
        wanted, mode = ("whole cards", "whole") if whole else ("card memory", "memory")
        return (
            f"it can never fit: no node serves {wanted}; start the device plugin of nodes that should with "
            f"--mode {mode} or --mode both"
        )
    if whole:
        return f"it can never fit: the most usable cards of one node that serves whole cards are {ever}"
    return f"it can never fit: the largest usable card has {ever}"


def _count_by(explanation: Explanation, key: Callable[[NodeClass], Verdict]) -> dict[Verdict, int]:
    counts: dict[Verdict, int] = {}
    for each in explanation.classes:
        counts[key(each)] = counts.get(key(each), 0) + each.nodes
    return counts


class _Gathered:
    """A class of nodes while it is being gathered."""

    def __init__(self) -> None:
        self.nodes = 0
        self._examples: list[str] = []
        self._best: list[FreeCard] = []
        self._free = 0
        self._total = 0
        self._cards_free = 0

    def add(self, node: NodeState, request: CardRequest) -> None:
        self.nodes += 1
        self._total += node.total
        self._examples = sorted([*self._examples, node.name])[:MAX_EXAMPLES]
        rooms = ((_room(state, request), state.index) for state in node.cards.values())
        found = [FreeCard(units, node.name, index) for units, index in rooms if units]
        self._cards_free += len(found)
        self._free += sum(card.units for card in found)
        self._best = sorted([*self._best, *found], key=_best_first)[:MAX_BEST_CARDS]

    def close(self, verdict: Verdict, cards: tuple[int, ...]) -> NodeClass:
        return NodeClass(
            verdict=verdict,
            cards=cards,
            nodes=self.nodes,
            examples=tuple(self._examples),
            best=tuple(self._best),
            free=self._free,
            total=self._total,
            cards_free=self._cards_free,
        )


def _best_first(card: FreeCard) -> tuple[int, str, int]:
    return (-card.units, card.node, card.index)


def _room(state: CardState, request: CardRequest) -> int:
    """What a card could give such a request now: the units free there, or all of it where nobody uses it."""
    if request.whole:
        return state.total if state.is_empty else 0
    return state.grantable


def _can_ever_hold(state: CardState, request: CardRequest) -> bool:
    """Whether a card could give such a request anything if every pod ended."""
    return state.card is not None and state.card.is_usable and state.serves(request) and state.total > 0


def _is_allowed(state: CardState, request: CardRequest) -> bool:
    if state.card is None:
        return False
    selection = request.selection
    return selection is None or selection.allows(state.index, state.card.card.uuid, state.card.card.model)


_ORDER = {verdict: place for place, verdict in enumerate(Verdict)}
