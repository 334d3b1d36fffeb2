"""The nodes that fit a request, best first, updated only for the nodes that changed.

A filter call must not check 5,000 nodes, and between two calls only a few of them change. So every *shape* of request
has an index over the nodes, and a log of changes names the nodes to check again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from gcushare.core.card_state import suffice
from gcushare.core.change_log import ChangeLog
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.other_resources import NO_AMOUNTS, Amounts
from gcushare.core.placement import MAX_NODE_SCORE, POLICIES, prefer_choice
from gcushare.core.requests import CardRequest

MAX_SHAPES = 128
"""Shapes with an index. With 5,000 nodes an index takes about a megabyte, and 5 ms to build. CPU and memory count: the
trace of packing.md has 126 shapes."""

SCORED_PER_CALL = 8
"""Nodes that one call scores if scoring is slow, and again as many while the best has an old score. With 4 and 8 the
replayed trace of packing.md was filled 0.2 points less; with all that have changed, 0.2 more."""

_UNSCORED = 0.01
"""Factor on the plain score of a node that is not scored yet, so that it comes after those that are."""

_WALK_ADVANTAGE = 50
"""If fewer than a fiftieth of the nodes are asked about, sorting them is faster than finding them along the ranking.
Measured at 5,000 nodes: 100 names take 33 us to sort and 45 us to find, 300 names 137 and 7."""


Nodes: TypeAlias = Mapping[str, NodeState]
"""Nodes by name: a ledger's, or `nodes_for_claims`. The mapping itself is updated in place."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides on fitting and order: equal shapes get equal answers.

    ``amounts``: the CPU and memory of the request; none if the policy ignores them.
    """

    request: CardRequest
    node_policy: str
    amounts: Amounts = NO_AMOUNTS


def nodes_for_claims(ledger: Ledger) -> Nodes:
    """Follow the nodes of a ledger that serve claims: each as offering what claims take there, by name."""
    nodes: dict[str, NodeState] = {}

    def follow(node: NodeState) -> None:
        if node.known and node.serves_claims:
            nodes[node.name] = node.as_offered_to_claims()
        else:
            nodes.pop(node.name, None)

    ledger.listen(follow)
    return nodes


SlowScore = Callable[[NodeState, Shape], float]
"""Scores a node for a shape that fits there, from 0.0 to 1.0; too slow to score all nodes at once."""

ALL_QUICK: Mapping[str, SlowScore] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Standing:
    """A node's place among those that fit: its score from 0.0 to 1.0, and how many of the fitting nodes are better."""

    score: float
    better: int
    fitting: int


class FitIndex:
    """The nodes that fit one shape, ranked by the policy (best first, then by name). Call ``refresh`` before reading.

    ``slow``: scores nodes in place of the policy's function, a few with each ``refresh`` and ``best``, the others by
    ``score_due``. Until then a node keeps its place, or comes after those that are scored.
    """

    def __init__(self, nodes: Nodes, changes: ChangeLog, shape: Shape, slow: SlowScore | None = None) -> None:
        self.shape = shape
        self._nodes = nodes
        self._changes = changes
        self._score_node = POLICIES[shape.node_policy].score_node
        self.slow = slow
        self._due: dict[str, None] = {}
        """A stack of the nodes to be scored; it stays empty without ``slow``. Those that changed last matter most."""
        self._ranked: list[tuple[float, str]] = []
        self._ranks: dict[str, float] = {}
        self._position = -1
        self._after_preemption: set[str] | None = None

    def refresh(self) -> None:
        """Update the nodes that changed since the last call."""
        self.follow_changes()
        self.score_due(SCORED_PER_CALL)

    def score_due(self, count: int) -> int:
        """Score up to ``count`` of the nodes to be scored; returns how many."""
        count = min(count, len(self._due))
        for _ in range(count):
            self._score(self._due.popitem()[0])
        return count

    def _score_best(self, among: Collection[str]) -> None:
        """Score the best of these nodes until its score is not old: it may have lost what made it the best."""
        for _ in range(SCORED_PER_CALL if self._due else 0):
            best = next((name for _, name in self._ranked if name in among), "")
            if best not in self._due:
                return
            del self._due[best]
            self._score(best)

    def _score(self, name: str) -> None:
        if (node := self._nodes.get(name)) is not None and self.slow is not None and self.fits(name):
            self._place(name, -prefer_choice(node, self.shape.request, self.slow(node, self.shape)))

    def score_again(self) -> None:
        """Schedule all nodes to be scored again, the best first; meanwhile the order stays."""
        if self.slow is not None:
            self._due = {name: None for _, name in reversed(self._ranked)}  # the best on top

    def score_node_again(self, name: str) -> None:
        """Schedule a node to be scored next, after a change that does not affect fitting."""
        if self.slow is not None and self.fits(name):
            self._due.pop(name, None)
            self._due[name] = None

    def follow_changes(self) -> None:
        """Update which nodes fit. If scoring is slow, those that changed are scheduled for it."""
        position = self._changes.position
        if position == self._position:
            return
        changed = self._changes.since(self._position) if self._position >= 0 else None
        self._position = position
        if changed is None or len(changed) * 4 > len(self._nodes):
            self._rebuild()
        else:
            for name in changed:
                node = self._nodes.get(name)
                if self._after_preemption is not None:
                    can_fit = node is not None and can_ever_fit(node, self.shape.request)
                    (self._after_preemption.add if can_fit else self._after_preemption.discard)(name)
                self._place(name, None if node is None else self._rank(node))
                self.score_node_again(name)

    def fits(self, name: str) -> bool:
        """Whether the node fits; False for an unknown node."""
        return name in self._ranks

    def scores(self, names: Iterable[str]) -> list[int]:
        """The nodes' scores as the scheduler takes them, 0 to 10; 0 for a node that does not fit or is unknown."""
        rank_of = self._ranks.get
        return [round(-MAX_NODE_SCORE * rank_of(name, 0.0)) for name in names]

    def standing(self, name: str) -> Standing | None:
        """A node's standing; None if it does not fit."""
        rank = self._ranks.get(name)
        return None if rank is None else Standing(-rank, bisect_left(self._ranked, (rank, "")), len(self._ranked))

    @property
    def fitting(self) -> Collection[str]:
        """The names of all fitting nodes, in no particular order."""
        return self._ranks.keys()

    @property
    def after_preemption(self) -> Collection[str]:
        """The names of the nodes that would fit the request if every pod there ended; kept current after first use."""
        if self._after_preemption is None:
            nodes, request = self._nodes, self.shape.request
            self._after_preemption = {name for name, node in nodes.items() if can_ever_fit(node, request)}
        return self._after_preemption

    def best(self, among: Collection[str], count: int, *, only_equal: bool = False) -> list[str]:
        """The ``count`` best fitting nodes of ``among``, which has distinct names and a fast ``in``.

        ``only_equal``: only those as good as the first; at least one if any fits.
        """
        self._score_best(among)
        if len(among) * _WALK_ADVANTAGE < len(self._ranked):
            ranks = self._ranks
            pairs: Iterable[tuple[float, str]] = sorted((ranks[name], name) for name in among if name in ranks)
        else:
            pairs = (pair for pair in self._ranked if pair[1] in among)
        chosen: list[str] = []
        first: float | None = None
        for rank, name in pairs:
            if only_equal and first is not None and rank != first:
                break
            first = rank
            chosen.append(name)
            if len(chosen) >= count:
                break
        return chosen

    def recount(self) -> list[str]:
        """Rank every node again; returns the names with a wrong rank. Costs as much as building the index."""
        self.follow_changes()
        known = self._ranks
        fresh = {name: rank for name, node in self._nodes.items() if (rank := self._rank(node)) is not None}
        wrong = sorted(name for name in known.keys() | fresh.keys() if known.get(name) != fresh.get(name))
        if wrong or self._ranked != sorted(zip(fresh.values(), fresh.keys(), strict=True)):
            self._rebuild()
        return wrong

    def _rank(self, node: NodeState) -> float | None:
        """The node's rank; None if the shape does not fit. If scoring is slow, its last rank."""
        request = self.shape.request
        if not (node.known and node.fits(request)):
            return None
        if self.slow is None:
            return -prefer_choice(node, request, self._score_node(node, request))
        known = self._ranks.get(node.name)
        return -prefer_choice(node, request, _UNSCORED * self._score_node(node, request)) if known is None else known

    def _rebuild(self) -> None:
        ranks: dict[str, float] = {}
        for name, node in self._nodes.items():
            if (rank := self._rank(node)) is not None:
                ranks[name] = rank
        self._ranks = ranks
        self._ranked = sorted(zip(ranks.values(), ranks.keys(), strict=True))
        self.score_again()
        self._after_preemption = None

    def _place(self, name: str, now: float | None) -> None:
        """Move a node to its rank; None removes it."""
        before = self._ranks.get(name)
        if before == now:
            return
        if before is not None:
            del self._ranked[bisect_left(self._ranked, (before, name))]
            del self._ranks[name]
        if now is not None:
            insort(self._ranked, (now, name))
            self._ranks[name] = now


class FitIndexes:
    """The indexes of the shapes used lately, one per shape. ``slow``: scores in place of a policy's function."""

    def __init__(
        self,
        nodes: Mapping[str, NodeState],
        changes: ChangeLog,
        *,
        limit: int = MAX_SHAPES,
        slow: Mapping[str, SlowScore] = ALL_QUICK,
    ) -> None:
        self._nodes = nodes
        self._changes = changes
        self._limit = limit
        self._slow = slow
        self._by_shape: OrderedDict[Shape, FitIndex] = OrderedDict()
        self._recounted = 0

    def get(self, shape: Shape) -> FitIndex:
        """Return the shape's index, refreshed. A new one replaces the one that was unused for longest."""
        index = self._by_shape.get(shape)
        if index is None:
            slow = self._slow.get(shape.node_policy)
            index = self._by_shape[shape] = FitIndex(self._nodes, self._changes, shape, slow)
            if len(self._by_shape) > self._limit:
                self._by_shape.popitem(last=False)
        else:
            self._by_shape.move_to_end(shape)
        index.refresh()
        return index

    def recount_next(self) -> list[str]:
        """Recount one index, another one each time; returns the nodes that it had ranked wrongly."""
        if not self._by_shape:
            return []
        self._recounted += 1
        indexes = list(self._by_shape.values())
        return indexes[self._recounted % len(indexes)].recount()

    def score_due(self, count: int) -> bool:
        """Score up to ``count`` of the nodes to be scored, the last used shape first; False if none is left."""
        for index in tuple(reversed(self._by_shape.values())):
            if index.slow is not None:
                index.follow_changes()
                count -= index.score_due(count)
                if count <= 0:
                    return True
        return False

    def score_again(self, policy: str) -> None:
        """Schedule all nodes to be scored again for the shapes of a policy whose preferences changed."""
        for index in self._by_shape.values():
            if index.shape.node_policy == policy:
                index.score_again()

    def score_node_again(self, name: str) -> None:
        """Schedule a node to be scored again for every shape with slow scores; fitting does not change."""
        for index in self._by_shape.values():
            index.score_node_again(name)

    def find(self, shape: Shape) -> FitIndex | None:
        """Return the shape's index, refreshed; None if there is none. Neither creates nor prolongs one."""
        index = self._by_shape.get(shape)
        if index is not None:
            index.refresh()
        return index


def can_ever_fit(node: NodeState, request: CardRequest) -> bool:
    """Whether a request would fit if every pod of the node ended: enough usable, allowed and large cards."""
    if not node.known or not node.serves(request):
        return False
    return suffice((state for state in node.cards.values() if state.could_hold(request)), request)
