"""Why a request fits nowhere, with numbers: per kind of node, what is free, what would help, and whether it ever could.

The same explanation is shown at the explain endpoint, in the pod's Event and in the log. Nodes are added and weighed
one by one, so that whoever explains 5,000 of them can give others a turn in between.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, describe_closure
from gcushare.core.nodes import NodeState, PodRef
from gcushare.core.preemption.victims import choose_victims, rank_victims
from gcushare.core.requests import CardRequest

MAX_BEST_CARDS = 3
"""Cards named per class of nodes: the first says how near it is, the others whether that is one card's luck."""

MAX_EXAMPLES = 3
MAX_REMEDIES_TRIED = 32
"""Nodes on which the pods that would have to end are sought: those that lack least."""


LEAST_SAMPLE = 100
"""kube-scheduler stops looking for nodes once it found its percentageOfNodesToScore, which are never fewer than this
(minFeasibleNodesToFind in its pkg/scheduler/schedule_one.go), and asks extenders about those alone."""


class Verdict(enum.Enum):
    """Why a node cannot hold a request; in the order in which a person can do something about it."""

    FITS = "room"
    KEPT = "room is kept for a pod that preempts others there"
    FRAGMENTED = "enough free memory, but not in one card"
    FULL = "too little free memory"
    IN_USE = "too few unused cards"
    UNCONFIRMED = "the cards of its pods are not confirmed yet"
    """Free room may be taken: a card is recorded beyond its size, or a pod was bound whose card is not known, until the
    node confirms which pod has which."""
    CLOSED = "cards with room are closed for a while: containers of deleted pods may still use them"
    UNUSABLE = "the cards that are large enough are sick or cordoned"
    NOT_ALLOWED = "no card that the pod's annotations allow"
    TOO_SMALL = "no card that is large enough"
    TOO_FEW = "fewer cards than the pod asks for"
    NO_WHOLE_CARDS = "no whole cards are served there (--mode of its device plugin)"
    NO_MEMORY = "only whole cards are served there (--mode of its device plugin)"
    NO_CARDS = "no cards, or none that can be read"


POSSIBLE = frozenset(
    {Verdict.FITS, Verdict.KEPT, Verdict.FRAGMENTED, Verdict.FULL, Verdict.IN_USE, Verdict.UNCONFIRMED, Verdict.CLOSED}
)
"""The verdicts of nodes that hold the request now, or would if pods ended."""


@dataclass(frozen=True, slots=True, order=True)
class FreeCard:
    """What one card could still give, all of it to a request for whole cards; orders by units."""

    units: int
    node: str
    index: int


@dataclass(frozen=True, slots=True, order=True)
class ClosedCard:
    """A card that takes no pods of this use for a while, and why; orders by node."""

    node: str
    index: int
    words: str


@dataclass(slots=True)
class NodeClass:
    """The nodes with the same cards and the same verdict; ``cards`` are the sizes, smallest first, of one of them.

    All other numbers are of the cards that the pod allows. ``free`` and ``total`` are units; ``cards_free``: how many
    of ``cards_total`` could give anything to this request. ``closed``: some of its cards that are closed for a while.
    """

    verdict: Verdict
    cards: tuple[int, ...]
    nodes: int = 0
    examples: list[str] = field(default_factory=list)
    best: list[FreeCard] = field(default_factory=list)
    free: int = 0
    total: int = 0
    cards_free: int = 0
    cards_total: int = 0
    closed: list[ClosedCard] = field(default_factory=list)

    def add(self, name: str, look: _Look) -> None:
        """Count one node more."""
        if look.closed:
            found = (ClosedCard(name, index, words) for index, words in look.closed)
            self.closed = sorted([*self.closed, *found])[:MAX_EXAMPLES]
        self.nodes += 1
        self.total += look.total
        self.cards_total += look.allowed
        self.cards_free += len(look.rooms)
        if len(self.examples) < MAX_EXAMPLES or name < self.examples[-1]:
            self.examples = sorted([*self.examples, name])[:MAX_EXAMPLES]
        least = self.best[-1].units if len(self.best) == MAX_BEST_CARDS else 0
        self.free += sum(units for units, _ in look.rooms)
        rooms = [FreeCard(units, name, index) for units, index in look.rooms if units >= least]
        if rooms:
            self.best = sorted([*self.best, *rooms], key=_best_first)[:MAX_BEST_CARDS]


@dataclass(frozen=True, slots=True)
class Asked:
    """That kube-scheduler asked about some nodes only: ``nodes`` of ``known``.

    It leaves out those that the pod's nodeSelector, affinity or tolerations exclude, and those that lack something
    else, or the units as one sum; and of many nodes it takes a sample. ``fit_elsewhere``: how many of the others have
    room, ``possible_elsewhere``: how many would if pods ended; ``examples`` have room.
    """

    nodes: int
    known: int
    fit_elsewhere: int = 0
    possible_elsewhere: int = 0
    examples: tuple[str, ...] = ()

    @property
    def may_be_sample(self) -> bool:
        """Whether other nodes may have been left out by kube-scheduler's sampling alone."""
        return self.nodes >= LEAST_SAMPLE


@dataclass(frozen=True, slots=True)
class Remedy:
    """Ending these pods makes the request fit on this node.

    ``is_preemption``: all of them have a lower priority than the pod that waits, so that kube-scheduler may end them;
    else some have the same, and only people can.
    """

    node: str
    victims: tuple[PodRef, ...]
    is_preemption: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """What keeps a request from fitting, or where it fits.

    ``largest_now`` and ``largest_ever``: the most units that each of as many allowed cards of one node could give now,
    and if every pod ended; for whole cards, the most such cards of one node. ``asked``: where kube-scheduler asked
    about some nodes only; all but its own numbers are of those. The remedy was sought on ``weighed`` of
    ``after_preemption`` nodes, those that lack least; without one, ending pods of a higher priority is all that would
    help there.
    """

    request: CardRequest
    classes: tuple[NodeClass, ...]
    largest_now: int
    largest_ever: int
    remedy: Remedy | None
    asked: Asked | None = None
    weighed: int = 0
    after_preemption: int = 0

    @property
    def nodes_fit(self) -> int:
        return sum(each.nodes for each in self.classes if each.verdict is Verdict.FITS)

    @property
    def can_ever_fit(self) -> bool:
        """Whether it fits now, or would if pods ended, wherever."""
        return self.can_fit_where_asked or (self.asked is not None and self.asked.possible_elsewhere > 0)

    @property
    def can_fit_where_asked(self) -> bool:
        """The same of the nodes that kube-scheduler asked about."""
        return any(each.verdict in POSSIBLE for each in self.classes)

    @property
    def best(self) -> tuple[FreeCard, ...]:
        """The cards with most room, best first."""
        found = sorted((card for each in self.classes for card in each.best), key=_best_first)
        return tuple(found[:MAX_BEST_CARDS])


class Explainer:
    """Gathers one explanation: ``add`` every node, ``weigh_next`` until there is none, then ``finish``.

    ``priority`` is that of the pod that asks.
    """

    def __init__(self, request: CardRequest, *, priority: int = 0) -> None:
        self._request = request
        self._priority = priority
        self._classes: dict[tuple[Verdict, tuple[int, ...]], NodeClass] = {}
        self._near: list[tuple[int, str, NodeState]] = []
        self._possible = self._weighed = self._fit = 0
        self._largest_now = self._largest_ever = 0
        self._remedies: list[Remedy] = []

    def add(self, node: NodeState, *, is_kept: bool = False) -> None:
        """Take one node into account; ``is_kept``: the room that it may have is another pod's."""
        look = _Look.at(node, self._request)
        verdict = look.evaluate(node, self._request)
        if is_kept and verdict is Verdict.FITS:
            verdict = Verdict.KEPT
            look.rooms.clear()
        kind = verdict, tuple(sorted(look.sizes))
        if kind not in self._classes:
            self._classes[kind] = NodeClass(*kind)
        self._classes[kind].add(node.name, look)
        self._largest_now = max(self._largest_now, _most(look.rooms, self._request))
        self._largest_ever = max(self._largest_ever, _most(look.ever, self._request))
        if verdict is Verdict.FITS:
            self._fit += 1
        elif verdict in POSSIBLE and verdict not in (Verdict.KEPT, Verdict.UNCONFIRMED, Verdict.CLOSED):
            self._possible += 1
            entry = (_nearness(look.rooms, self._request), node.name, node)
            push = heapq.heappush if len(self._near) < MAX_REMEDIES_TRIED else heapq.heappushpop
            push(self._near, entry)

    def weigh_next(self) -> bool:
        """Seek whom to end on one more of the nearest nodes; False when there is none left, or somewhere is room."""
        if self._fit or not self._near:
            return False
        _, name, node = self._near.pop()
        self._weighed += 1
        if (remedy := self._weigh(name, node)) is not None:
            self._remedies.append(remedy)
        return True

    def finish(self, asked: Asked | None = None) -> Explanation:
        """Return the explanation; weighs what was not weighed yet."""
        while self.weigh_next():
            pass
        ordered = sorted(self._classes.values(), key=lambda each: (_ORDER[each.verdict], -each.nodes, each.cards))
        return Explanation(
            request=self._request,
            classes=tuple(ordered),
            largest_now=self._largest_now,
            largest_ever=self._largest_ever,
            remedy=min(self._remedies, key=_rank_remedy, default=None),
            asked=asked,
            weighed=self._weighed,
            after_preemption=self._possible,
        )

    def _weigh(self, name: str, node: NodeState) -> Remedy | None:
        """Whom to end on one node: pods of lower priority if they are enough, else of the same too, never of higher."""
        pods = [held.pod for held in node.assignments.values() if held.pod.priority <= self._priority]
        lower = [pod for pod in pods if pod.priority < self._priority]
        if lower and (chosen := choose_victims(node, self._request, lower)):
            return Remedy(name, chosen)
        if len(lower) < len(pods) and (chosen := choose_victims(node, self._request, pods)):
            return Remedy(name, chosen, is_preemption=False)
        return None


def evaluate(node: NodeState, request: CardRequest) -> Verdict:
    """Say why a node cannot hold a request, or that it can."""
    return _Look.at(node, request).evaluate(node, request)


@dataclass(slots=True)
class _Look:
    """What one walk over a node's cards finds; all but ``sizes`` is of the cards that the pod allows.

    ``rooms``: what they could give now, with their indexes; ``ever``: what they could if every pod ended; ``large``:
    how many are large enough, and ``usable``: how many of those take pods. ``confirmed``: how many could hold
    the request were every pod's card known, ``open``: and were no card closed for a while besides.
    """

    sizes: list[int] = field(default_factory=list)
    allowed: int = 0
    total: int = 0
    large: int = 0
    usable: int = 0
    confirmed: int = 0
    open: int = 0
    rooms: list[tuple[int, int]] = field(default_factory=list)
    ever: list[tuple[int, int]] = field(default_factory=list)
    closed: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def at(cls, node: NodeState, request: CardRequest) -> _Look:
        found = cls()
        least = max(1, request.units)
        for state in node.cards.values():
            card = state.card
            if card is None:
                continue
            units = card.units
            found.sizes.append(units)
            if request.selection is not None and not request.selection.allows(card.card):
                continue
            found.allowed += 1
            found.total += units
            found.large += units >= least
            if not card.is_usable:
                continue  # Which gives nothing now, nor if every pod ended.
            found.usable += units >= least
            if units and state.serves(request):
                found.ever.append((units, state.index))
            room = (units if state.is_empty else 0) if request.whole else state.grantable
            if room:
                found.rooms.append((room, state.index))
            use = SERVES_WHOLE if request.whole else SERVES_MEMORY
            found.closed += ((state.index, describe_closure(each)) for each in card.closures if each.use == use)
            if state.serves(request) and (not state.pods if request.whole else state.free >= least):
                found.open += units >= least
                found.confirmed += units >= least and card.takes(use)
        return found

    def evaluate(self, node: NodeState, request: CardRequest) -> Verdict:
        if not node.known or not self.sizes:
            return Verdict.NO_CARDS
        if node.fits(request):
            return Verdict.FITS
        if not node.serves(request):
            return Verdict.NO_WHOLE_CARDS if request.whole else Verdict.NO_MEMORY
        if self.allowed < request.cards:
            return Verdict.NOT_ALLOWED if request.excludes_cards else Verdict.TOO_FEW
        if self.large < request.cards:
            return Verdict.TOO_SMALL
        if self.usable < request.cards:
            return Verdict.UNUSABLE
        if node.is_unconfirmed or self.confirmed >= request.cards:
            return Verdict.UNCONFIRMED
        if self.open >= request.cards:
            return Verdict.CLOSED
        if request.whole:
            return Verdict.IN_USE
        is_enough = sum(room for room, _ in self.rooms) >= request.units * request.cards
        return Verdict.FRAGMENTED if is_enough else Verdict.FULL


def _best_first(card: FreeCard) -> tuple[int, str, int]:
    return (-card.units, card.node, card.index)


def _rank_remedy(remedy: Remedy) -> tuple[object, ...]:
    return (not remedy.is_preemption, rank_victims(remedy.victims), remedy.node)


def _most(rooms: Sequence[tuple[int, int]], request: CardRequest) -> int:
    """The largest request of this kind that such cards of one node could hold: whole cards, or units in each card."""
    if request.whole:
        return len(rooms)
    if request.cards == 1 or not rooms:
        return max(rooms)[0] if rooms else 0
    return sorted(rooms, reverse=True)[request.cards - 1][0] if len(rooms) >= request.cards else 0


def _nearness(rooms: Sequence[tuple[int, int]], request: CardRequest) -> int:
    """How much of the request the best cards have room for: whole cards, or units."""
    if request.whole:
        return len(rooms)
    best = sorted(rooms, reverse=True)[: request.cards]
    return sum(min(units, request.units) for units, _ in best)


_ORDER = {verdict: place for place, verdict in enumerate(Verdict)}
