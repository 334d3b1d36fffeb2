"""Explains with numbers why a request fits nowhere: what is free per kind of node, what would help, if it can ever fit.

The explain endpoint, the pod's Event and the log show the same explanation. Nodes are added and weighed one by one, so
that a caller with 5,000 nodes can yield to other tasks in between.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gcushare.core.assignments import PodRef
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, describe_closure
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.victims import choose_victims, rank_victims
from gcushare.core.requests import CardRequest, CardSelection

MAX_BEST_CARDS = 3
"""Cards named per class of nodes: the first shows how close the request is to fitting, the others if that is typical.
"""

MAX_EXAMPLES = 3
MAX_REMEDIES_TRIED = 32
"""Nodes for which a remedy (pods that would have to end) is searched: those with the smallest shortfall."""

MAX_KINDS = 64
"""Kinds of nodes on which changes of a request are tried. Clusters have a few."""

LEAST_SAMPLE = 100
"""kube-scheduler stops its search for nodes at its percentageOfNodesToScore, but never below this number
(minFeasibleNodesToFind in its pkg/scheduler/schedule_one.go). It asks extenders about the found nodes only."""


class Verdict(enum.Enum):
    """Why a node cannot hold a request, ordered by how easily people can change it."""

    FITS = "room"
    KEPT = "room is kept for another pod there"
    FRAGMENTED = "enough free memory, but not in one card"
    FULL = "too little free memory"
    IN_USE = "too few unused cards"
    UNCONFIRMED = "the cards of its pods are not confirmed yet"
    """Free room may be in use already: the records on a card exceed its size, or a bound pod's card is unknown. It ends
    when the node confirms the cards of its pods."""
    CLOSED = "cards with room are closed for a while: containers of deleted pods may still use them"
    ELSEWHERE = "another plugin serves whole cards there, which kube-scheduler counts itself"
    UNUSABLE = "the cards that are large enough are sick or cordoned"
    NOT_ALLOWED = "no card that the pod's annotations allow"
    BELOW_LIMIT = "no card as large as the pod's limit (gcushare.io/memory-limit)"
    TOO_SMALL = "no card that is large enough"
    TOO_FEW = "fewer cards than the pod asks for"
    NO_WHOLE_CARDS = "no whole cards are served there (--mode of its device plugin)"
    NO_MEMORY = "only whole cards are served there (--mode of its device plugin)"
    CLAIMS_ONLY = "its cards are given as claims (label gcushare.io/serve)"
    DISTRUSTED = "the kubelet counts its memory in another unit, or for another system"
    NO_CARDS = "no cards, or none that can be read"


_WITHOUT_REMEDY = frozenset({Verdict.KEPT, Verdict.UNCONFIRMED, Verdict.CLOSED, Verdict.ELSEWHERE})
"""Verdicts that end without the end of pods, or that say nothing about them."""

POSSIBLE = _WITHOUT_REMEDY | {Verdict.FITS, Verdict.FRAGMENTED, Verdict.FULL, Verdict.IN_USE}
"""The verdicts of nodes that can hold the request now, or could if pods ended."""


@dataclass(frozen=True, slots=True, order=True)
class FreeCard:
    """What one card could still give to a request; the whole card if whole cards are requested. Ordered by units."""

    units: int
    node: str
    index: int


@dataclass(frozen=True, slots=True, order=True)
class ClosedCard:
    """A card that is temporarily closed to this use, with the reason as text. Ordered by node."""

    node: str
    index: int
    text: str


@dataclass(slots=True)
class NodeClass:
    """The nodes with the same cards and the same verdict. ``cards`` are the card sizes of one node, smallest first.

    All other numbers cover only cards that the pod allows. ``free`` and ``total`` are units. ``cards_free`` of
    ``cards_total`` cards could give something to this request. ``closed`` are some temporarily closed cards.
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

    def add(self, name: str, scan: _CardScan) -> None:
        if scan.closed:
            found = (ClosedCard(name, index, text) for index, text in scan.closed)
            self.closed = sorted([*self.closed, *found])[:MAX_EXAMPLES]
        self.nodes += 1
        self.total += scan.total
        self.cards_total += scan.allowed
        self.cards_free += len(scan.rooms)
        if len(self.examples) < MAX_EXAMPLES or name < self.examples[-1]:
            self.examples = sorted([*self.examples, name])[:MAX_EXAMPLES]
        least = self.best[-1].units if len(self.best) == MAX_BEST_CARDS else 0
        self.free += sum(units for units, _ in scan.rooms)
        rooms = [FreeCard(units, name, index) for units, index in scan.rooms if units >= least]
        if rooms:
            self.best = sorted([*self.best, *rooms], key=_best_first)[:MAX_BEST_CARDS]


@dataclass(frozen=True, slots=True)
class Asked:
    """kube-scheduler asked about ``nodes`` of ``known`` nodes only.

    It excludes nodes by the pod's nodeSelector, affinity and tolerations, and nodes that are short of another resource
    or of units in total. If there are many nodes, it takes a sample. ``fit_elsewhere`` of the other nodes have room,
    ``possible_elsewhere`` would have room if pods ended. ``examples`` are nodes with room.
    """

    nodes: int
    known: int
    fit_elsewhere: int = 0
    possible_elsewhere: int = 0
    examples: tuple[str, ...] = ()

    @property
    def may_be_sample(self) -> bool:
        """Whether kube-scheduler may have omitted the other nodes only because it takes a sample."""
        return self.nodes >= LEAST_SAMPLE


@dataclass(frozen=True, slots=True)
class Remedy:
    """Pods whose end makes the request fit on this node.

    ``is_preemption``: all have a lower priority than the waiting pod, so kube-scheduler may preempt them. Otherwise
    some have the same priority, and a person must end them.
    """

    node: str
    victims: tuple[PodRef, ...]
    is_preemption: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """What keeps a request from fitting, or where it fits.

    ``largest_now`` is the largest request of this kind that would fit now, ``largest_ever`` if every pod ended: units
    in each of as many allowed cards of one node or, for whole cards, a number of cards of one node. ``asked`` is set
    if kube-scheduler asked about some nodes only; all numbers outside it then cover those nodes. The remedy was
    searched on ``weighed`` of the ``after_preemption`` nodes, those with the smallest shortfall. If none was found,
    only pods of higher priority are in the way there.
    """

    request: CardRequest
    classes: tuple[NodeClass, ...]
    largest_now: int
    largest_ever: int
    remedy: Remedy | None
    asked: Asked | None = None
    weighed: int = 0
    after_preemption: int = 0
    kinds: tuple[NodeState, ...] = ()
    """A node of each kind that can never hold the request, to try others on; of very many kinds some are left out."""

    @property
    def nodes_fit(self) -> int:
        return sum(each.nodes for each in self.classes if each.verdict is Verdict.FITS)

    @property
    def can_ever_fit(self) -> bool:
        """Whether the request fits on any node now, or would if pods ended."""
        return self.can_fit_where_asked or (self.asked is not None and self.asked.possible_elsewhere > 0)

    @property
    def can_fit_where_asked(self) -> bool:
        """The same for the nodes that kube-scheduler asked about."""
        return any(each.verdict in POSSIBLE for each in self.classes)

    @property
    def best(self) -> tuple[FreeCard, ...]:
        """The cards with most room, best first."""
        found = sorted((card for each in self.classes for card in each.best), key=_best_first)
        return tuple(found[:MAX_BEST_CARDS])


class Explainer:
    """Builds one explanation: ``add`` every node, call ``weigh_next`` until it returns False, then ``finish``.

    ``priority`` is the priority of the waiting pod.
    """

    def __init__(self, request: CardRequest, *, priority: int = 0) -> None:
        self._request = request
        self._priority = priority
        self._classes: dict[tuple[Verdict, tuple[int, ...]], NodeClass] = {}
        self._near: list[tuple[int, str, NodeState]] = []
        self._possible = self._weighed = self._fit = 0
        self._largest_now = self._largest_ever = 0
        self._remedies: list[Remedy] = []
        self._kinds: dict[tuple[tuple[int, bool, bool], ...], NodeState] = {}

    def add(self, node: NodeState, *, is_kept: bool = False, is_elsewhere: bool = False) -> None:
        """Add one node.

        ``is_kept``: room that it may have is kept for another pod. ``is_elsewhere``: another plugin serves its whole
        cards.
        """
        scan = _CardScan.at(node, self._request)
        verdict = scan.evaluate(node, self._request)
        if is_elsewhere and self._request.whole and not self._request.excludes_cards:
            verdict = Verdict.ELSEWHERE
        if is_kept and verdict is Verdict.FITS:
            verdict = Verdict.KEPT
            scan.rooms.clear()
        kind = verdict, tuple(sorted(scan.sizes))
        if kind not in self._classes:
            self._classes[kind] = NodeClass(*kind)
        self._classes[kind].add(node.name, scan)
        if not is_kept:
            self._largest_now = max(self._largest_now, _most(scan.rooms, self._request))
        ever = _most(scan.ever, self._request)
        if verdict not in POSSIBLE and (len(self._kinds) < MAX_KINDS or ever > self._largest_ever):
            self._kinds.setdefault(_kind_of(node, self._request), node)
        self._largest_ever = max(self._largest_ever, ever)
        if verdict is Verdict.FITS:
            self._fit += 1
        elif verdict in POSSIBLE - _WITHOUT_REMEDY:
            self._possible += 1
            entry = (_nearness(scan.rooms, self._request), node.name, node)
            push = heapq.heappush if len(self._near) < MAX_REMEDIES_TRIED else heapq.heappushpop
            push(self._near, entry)

    def weigh_next(self) -> bool:
        """Search a remedy on the next of the nearest nodes. False if none is left, or if the request fits somewhere."""
        if self._fit or not self._near:
            return False
        _, name, node = self._near.pop()
        self._weighed += 1
        if (remedy := self._weigh(name, node)) is not None:
            self._remedies.append(remedy)
        return True

    def finish(self, asked: Asked | None = None) -> Explanation:
        """Return the explanation. Weighs the remaining nodes first."""
        while self.weigh_next():
            pass
        ordered = sorted(self._classes.values(), key=lambda each: (_ORDER[each.verdict], -each.nodes, each.cards))
        return Explanation(
            request=self._request,
            classes=tuple(ordered),
            largest_now=self._largest_now,
            largest_ever=self._largest_ever,
            remedy=min(
                self._remedies,
                key=lambda each: (not each.is_preemption, rank_victims(each.victims), each.node),
                default=None,
            ),
            asked=asked,
            weighed=self._weighed,
            after_preemption=self._possible,
            kinds=tuple(self._kinds.values()),
        )

    def _weigh(self, name: str, node: NodeState) -> Remedy | None:
        """The remedy on one node: pods of lower priority or, if these are not enough, of the same priority too."""
        pods = [held.pod for held in node.assignments.values() if held.pod.priority <= self._priority]
        lower = [pod for pod in pods if pod.priority < self._priority]
        if lower and (chosen := choose_victims(node, self._request, lower)):
            return Remedy(name, chosen)
        if len(lower) < len(pods) and (chosen := choose_victims(node, self._request, pods)):
            return Remedy(name, chosen, is_preemption=False)
        return None


def evaluate(node: NodeState, request: CardRequest) -> Verdict:
    """The verdict of one node for a request."""
    return _CardScan.at(node, request).evaluate(node, request)


@dataclass(slots=True)
class _CardScan:
    """The result of one pass over a node's cards. All fields but ``sizes`` cover only cards that the pod allows.

    ``rooms`` is what the cards could give now, ``ever`` what they could if every pod ended: (amount, card index).
    ``large`` counts the cards that are large enough, ``usable`` those of them that take pods. ``confirmed`` counts the
    cards that could hold the request if every pod's card were known, ``open`` if also no card were closed.
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
    def at(cls, node: NodeState, request: CardRequest) -> _CardScan:
        found, least = cls(), max(1, request.units)
        for state in node.cards.values():
            card = state.card
            if card is None:
                continue
            units = card.units
            found.sizes.append(units)
            if request.selection is not None and not request.selection.allows(card):
                continue
            found.allowed += 1
            found.total += units
            found.large += units >= least
            if not card.is_usable:
                continue  # It gives nothing now, and would not if every pod ended.
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
        if not node.modes:
            return Verdict.DISTRUSTED
        if node.serves_claims:
            return Verdict.CLAIMS_ONLY
        if not node.serves(request):
            return Verdict.NO_WHOLE_CARDS if request.whole else Verdict.NO_MEMORY
        if self.allowed < request.cards:
            if request.limit and sum(size >= request.limit for size in self.sizes) < request.cards:
                return Verdict.BELOW_LIMIT
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


def _kind_of(node: NodeState, request: CardRequest) -> tuple[tuple[int, bool, bool], ...]:
    """What decides on changes of a request: each card's size, whether it takes pods, and whether the pod names it."""
    options = replace(request.selection, limit=0) if request.selection is not None else CardSelection()
    cards = ((card.units, card.is_usable, options.allows(card)) for card in node.present_cards)
    return tuple(sorted((units, usable and node.serves(request), allowed) for units, usable, allowed in cards))


def _best_first(card: FreeCard) -> tuple[int, str, int]:
    return (-card.units, card.node, card.index)


def _most(rooms: Sequence[tuple[int, int]], request: CardRequest) -> int:
    """The largest request of this kind that these cards of one node could hold: whole cards, or units in each card."""
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
