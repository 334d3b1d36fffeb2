"""Explains with numbers why a request fits nowhere: what is free per kind of node, what would help, if it can ever fit.

It is judged on the nodes that the pod's own rules leave; of the others it is said whether they have room. The explain
endpoint, the pod's Event and the log show the same explanation. Nodes are added and weighed one by one, so that a
caller with 5,000 nodes can yield to other tasks in between.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gcushare.core.assignments import PodRef
from gcushare.core.explain.verdicts import POSSIBLE, WITHOUT_REMEDY, CardScan, Verdict
from gcushare.core.node_rules import Obstacle
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.victims import choose_victims, rank_victims
from gcushare.core.requests import CardRequest, CardSelection
from gcushare.core.whole_cards import linked_sets

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

    ``obstacle``: what keeps the pod off, if the verdict is EXCLUDED or AWAY. All numbers cover only cards that
    the pod allows. ``free`` and ``total`` are units. ``cards_free`` of ``cards_total`` cards could give something to
    this request. ``closed`` are some temporarily closed cards. ``with_room`` are nodes on which the request would fit
    now, ``possible`` counts those that could hold it if pods ended, whatever keeps the pod off.
    """

    verdict: Verdict
    cards: tuple[int, ...]
    obstacle: str = ""
    nodes: int = 0
    with_room: list[str] = field(default_factory=list)
    possible: int = 0
    examples: list[str] = field(default_factory=list)
    best: list[FreeCard] = field(default_factory=list)
    free: int = 0
    total: int = 0
    cards_free: int = 0
    cards_total: int = 0
    closed: list[ClosedCard] = field(default_factory=list)

    def add(self, name: str, scan: CardScan, verdict: Verdict) -> None:
        """Add a node. ``verdict`` is of its cards alone."""
        if verdict is Verdict.FITS:
            self.with_room.append(name)
        self.possible += verdict in POSSIBLE
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
            self.best = sorted([*self.best, *rooms], key=best_first)[:MAX_BEST_CARDS]


@dataclass(frozen=True, slots=True)
class Remedy:
    """Pods whose end makes the request fit on this node.

    ``is_preemption``: all have a lower priority than the waiting pod, so kube-scheduler may preempt them. Otherwise
    a person must end them: some have the same priority, its preemptionPolicy is Never, or ``by_claim``, for which
    kube-scheduler ends no pod.
    """

    node: str
    victims: tuple[PodRef, ...]
    is_preemption: bool = True
    by_claim: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """What keeps a request from fitting, or where it fits.

    ``largest_now`` is the largest request of this kind that would fit now, ``largest_ever`` if every pod ended: units
    in each of as many allowed cards of one node or, for whole cards, a number of cards of one node. ``most_cards``: the
    most usable and allowed cards of one node. These are of the nodes on which the pod may run and about which
    kube-scheduler asked. ``asked``: how many it asked about; None if it asked about all that the pod's rules leave, or
    has not asked yet. The remedy was searched on ``weighed`` of the ``after_preemption`` nodes, those with the smallest
    shortfall. If none was found, only pods of higher priority are in the way there.
    """

    request: CardRequest
    classes: tuple[NodeClass, ...]
    largest_now: int
    largest_ever: int
    most_cards: int = 0
    remedy: Remedy | None = None
    asked: int | None = None
    weighed: int = 0
    after_preemption: int = 0
    unit: str = ""
    """The name of the nodes' unit; empty if it is unknown or they differ."""
    kinds: tuple[NodeState, ...] = ()
    """A node of each kind that can never hold the request, to try others on; of very many kinds some are left out."""

    @property
    def nodes_fit(self) -> int:
        return sum(each.nodes for each in self.of(Verdict.FITS))

    @property
    def can_ever_fit(self) -> bool:
        """Whether the request fits on a node that the pod's rules leave, or would if pods ended."""
        return self.can_fit_where_asked or any(each.possible for each in self.of(Verdict.UNASKED, Verdict.AWAY))

    @property
    def can_fit_where_asked(self) -> bool:
        """The same for the nodes that kube-scheduler asked about."""
        return any(each.verdict in POSSIBLE for each in self.classes)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Some of the nodes whose cards are not known yet: what is said of the request may change with them."""
        return tuple(name for each in self.of(Verdict.AWAITED) for name in each.examples)

    @property
    def tried(self) -> tuple[NodeClass, ...]:
        """The classes of the nodes on which the request was judged: nothing but cards may keep the pod off."""
        others = (Verdict.EXCLUDED, Verdict.AWAY, Verdict.UNASKED)
        return tuple(each for each in self.classes if each.verdict not in others)

    def of(self, *verdicts: Verdict) -> tuple[NodeClass, ...]:
        """The classes of some verdicts."""
        return tuple(each for each in self.classes if each.verdict in verdicts)


class Explainer:
    """Builds one explanation: ``add`` every node, call ``weigh_next`` until it returns False, then ``finish``.

    ``priority`` is the priority of the waiting pod; ``preempts``: whether kube-scheduler ends pods for it.
    """

    def __init__(self, request: CardRequest, *, priority: int = 0, preempts: bool = True) -> None:
        self._request = request
        self._priority, self._preempts = priority, preempts
        self._classes: dict[tuple[Verdict, tuple[int, ...], str], NodeClass] = {}
        self._near: list[tuple[int, str, NodeState, bool]] = []
        self._possible = self._weighed = self._fit = self._asked = self._unasked = 0
        self._largest_now = self._largest_ever = self._most_cards = 0
        self._remedies: list[Remedy] = []
        self._units: set[str] = set()
        self._kinds: dict[tuple[tuple[int, bool, bool, str], ...], NodeState] = {}

    def add(
        self,
        node: NodeState,
        *,
        obstacle: Obstacle | None = None,
        is_kept: bool = False,
        is_asked: bool = True,
        by_claim: bool = False,
        is_elsewhere: bool = False,
    ) -> None:
        """Add one node. ``obstacle``: what keeps the pod off; ``is_kept``: its room is another pod's.

        ``is_asked``: kube-scheduler asked about it, or has not asked yet. ``by_claim``: it would give cards by a claim.
        ``is_elsewhere``: another plugin serves its whole cards.
        """
        scan = CardScan.at(node, self._request)
        verdict = shown = scan.evaluate(node, self._request)
        if is_elsewhere and self._request.whole and not self._request.excludes_cards:
            verdict = shown = Verdict.ELSEWHERE
        elif is_elsewhere and verdict is Verdict.AWAITED:
            verdict = shown = Verdict.NO_CARDS
        if is_kept and verdict is Verdict.FITS:
            verdict = shown = Verdict.KEPT
            scan.rooms.clear()
        if obstacle is not None:
            shown = Verdict.AWAY if obstacle.passes else Verdict.EXCLUDED
        elif not is_asked and scan.suffices_in_sum(self._request):
            shown = Verdict.UNASKED
        kind = shown, tuple(sorted(scan.sizes)), obstacle.text if obstacle is not None else ""
        if kind not in self._classes:
            self._classes[kind] = NodeClass(*kind)
        self._classes[kind].add(node.name, scan, verdict)
        if node.unit is not None:
            self._units.add(node.unit.label)
        if obstacle is None:
            self._asked += is_asked
            self._unasked += not is_asked
        if shown is not verdict:
            return
        if not is_kept:
            now = (_most(rooms, self._request) for rooms in _together(node, scan.rooms, self._request))
            self._largest_now = max(self._largest_now, *now, 0)
        self._judge(node, scan, verdict, by_claim=by_claim)

    def _judge(self, node: NodeState, scan: CardScan, verdict: Verdict, *, by_claim: bool) -> None:
        """Count a node on which nothing but its cards may keep the pod off."""
        together = _together(node, scan.ever, self._request)
        self._most_cards = max(self._most_cards, *map(len, together), 0)
        ever = max((_most(rooms, self._request) for rooms in together), default=0)
        if verdict not in POSSIBLE and (len(self._kinds) < MAX_KINDS or ever > self._largest_ever):
            self._kinds.setdefault(_kind_of(node, self._request), node)
        self._largest_ever = max(self._largest_ever, ever)
        if verdict is Verdict.FITS:
            self._fit += 1
        elif verdict in POSSIBLE - WITHOUT_REMEDY:
            self._possible += 1
            entry = (_nearness(scan.rooms, self._request), node.name, node, by_claim)
            push = heapq.heappush if len(self._near) < MAX_REMEDIES_TRIED else heapq.heappushpop
            push(self._near, entry)

    def weigh_next(self) -> bool:
        """Search a remedy on the next of the nearest nodes. False if none is left, or if the request fits somewhere."""
        if self._fit or not self._near:
            return False
        _, _, node, by_claim = self._near.pop()
        self._weighed += 1
        if (remedy := self._weigh_claim(node) if by_claim else self._weigh(node)) is not None:
            self._remedies.append(remedy)
        return True

    def finish(self) -> Explanation:
        """Return the explanation. Weighs the remaining nodes first."""
        while self.weigh_next():
            pass
        found = self._classes.values()
        ordered = sorted(found, key=lambda each: (_ORDER[each.verdict], -each.nodes, each.cards, each.obstacle))
        return Explanation(
            request=self._request,
            classes=tuple(ordered),
            largest_now=self._largest_now,
            largest_ever=self._largest_ever,
            most_cards=self._most_cards,
            remedy=min(
                self._remedies,
                key=lambda each: (not each.is_preemption, rank_victims(each.victims), each.node),
                default=None,
            ),
            asked=self._asked if self._unasked else None,
            weighed=self._weighed,
            after_preemption=self._possible,
            unit="".join(self._units) if len(self._units) == 1 else "",
            kinds=tuple(self._kinds.values()),
        )

    def _weigh_claim(self, node: NodeState) -> Remedy | None:
        """The remedy on a node that gives cards by claims: any pods, as kube-scheduler ends none for a claim."""
        pods = [held.pod for held in node.assignments.values() if not held.unrecorded]
        chosen = choose_victims(node, self._request, pods) if pods else None
        if not chosen:
            return None
        victims = (pod for each in chosen for pod in (each, *node.assignments[each.uid].sharers))
        return Remedy(node.name, tuple(dict.fromkeys(victims)), is_preemption=False, by_claim=True)

    def _weigh(self, node: NodeState) -> Remedy | None:
        """The remedy on one node: pods of lower priority or, if these are not enough, of the same priority too."""
        pods = [held.pod for held in node.assignments.values() if held.pod.priority <= self._priority]
        lower = [pod for pod in pods if pod.priority < self._priority]
        if lower and (chosen := choose_victims(node, self._request, lower)):
            return Remedy(node.name, chosen, is_preemption=self._preempts)
        if len(lower) < len(pods) and (chosen := choose_victims(node, self._request, pods)):
            return Remedy(node.name, chosen, is_preemption=False)
        return None


def _kind_of(node: NodeState, request: CardRequest) -> tuple[tuple[int, bool, bool, str], ...]:
    """What decides on changes of a request: each card's size, whether it takes pods, and whether the pod names it.

    The same of links, where they count.
    """
    options = replace(request.selection, limit=0) if request.selection is not None else CardSelection()
    serves = node.serves(request)
    return tuple(
        sorted(
            (card.units, card.is_usable and serves, options.allows(card), card.link_group if request.linked else "")
            for card in node.present_cards
        )
    )


def best_first(card: FreeCard) -> tuple[int, str, int]:
    return (-card.units, card.node, card.index)


def _together(
    node: NodeState, rooms: Sequence[tuple[int, int]], request: CardRequest
) -> list[Sequence[tuple[int, int]]]:
    """The rooms of one node that a request could have together: all, or those of each set of linked cards."""
    if not request.linked:
        return [rooms]
    return [[room for room in rooms if room[1] in linked] for linked in linked_sets(node.present_cards, 1)]


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
