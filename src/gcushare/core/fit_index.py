"""Which nodes fit a request, best first, kept up to date by looking only at the nodes that changed.

A filter call must not walk 5,000 nodes, and from one call to the next only a few of them change. So every *shape* of
request has an index over the ledger, and one log of changes says which nodes to look at again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.packing.spare import NO_AMOUNTS, Amounts
from gcushare.core.placement import MAX_NODE_SCORE, POLICIES
from gcushare.core.requests import CardRequest

MAX_LOGGED_CHANGES = 16_384
"""Changes remembered; an index that fell further behind looks at every node again, which is then no dearer."""

MAX_SHAPES = 64
"""Shapes with an index of their own; at 5,000 nodes one takes about a megabyte, and building one 5 milliseconds."""

SCORED_PER_CALL = 4
"""Nodes that one question scores where that takes long: some two milliseconds at the worst."""

_UNSCORED = 0.01
"""A node that is not scored yet counts so much of its plain score: it comes after those that are."""

_WALK_ADVANTAGE = 50
"""Below this share of all nodes, looking up and sorting the names asked about beats walking the ranking to find them:
measured at 5,000 nodes, 100 names take 33 microseconds to sort and 45 to find, 300 names 137 and 7."""


class NameLog:
    """Names in the order in which they were noted, for any number of readers that each remember a position."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._dropped = 0

    @property
    def position(self) -> int:
        """Where the log ends now."""
        return self._dropped + len(self._names)

    def since(self, position: int) -> set[str] | None:
        """The names noted after ``position``; None when that is too long ago to tell."""
        if position < self._dropped:
            return None
        return set(self._names[position - self._dropped :])

    def note(self, name: str) -> None:
        """Append a name."""
        self._names.append(name)
        if len(self._names) > MAX_LOGGED_CHANGES:
            del self._names[: MAX_LOGGED_CHANGES // 2]
            self._dropped += MAX_LOGGED_CHANGES // 2


class ChangeLog(NameLog):
    """The names of a ledger's nodes as they change."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        ledger.listen(lambda node: self.note(node.name))


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides on fitting and order: equal shapes get equal answers.

    ``amounts``: the CPU and memory that are asked for beside the cards; none where the policy does not look at them.
    """

    request: CardRequest
    node_policy: str
    amounts: Amounts = NO_AMOUNTS


SlowScore = Callable[[NodeState, Shape], float]
"""How good a node is for a shape that fits there, from 0.0 to 1.0; takes too long to ask for every node at once."""

ALL_QUICK: Mapping[str, SlowScore] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a node stands among those that fit: its score from 0.0 to 1.0, and how many of so many are better."""

    score: float
    better: int
    fitting: int


class FitIndex:
    """The nodes that fit one shape, ranked by the policy (best first, then by name). Call ``refresh`` before asking.

    ``slow``: scores nodes in place of the policy's own table, a few with each ``refresh`` and the others by
    ``score_due``. Until then a node stands where it stood, or after those that are scored.
    """

    def __init__(self, ledger: Ledger, changes: ChangeLog, shape: Shape, slow: SlowScore | None = None) -> None:
        self.shape = shape
        self._ledger = ledger
        self._changes = changes
        self._score_node = POLICIES[shape.node_policy].score_node
        self._slow = slow
        self._due: dict[str, None] = {}
        """The nodes to be scored, in this order."""
        self._ranked: list[tuple[float, str]] = []
        self._ranks: dict[str, float] = {}
        self._position = -1
        self._after_preemption: set[str] | None = None

    def refresh(self) -> None:
        """Look again at the nodes that changed since the last call."""
        self.follow_changes()
        if self._due:
            self.score_due(SCORED_PER_CALL)

    @property
    def due(self) -> int:
        """How many nodes wait to be scored."""
        return len(self._due)

    @property
    def is_slow(self) -> bool:
        """Whether nodes are scored some at a time."""
        return self._slow is not None

    def score_due(self, count: int) -> int:
        """Score so many of the nodes that wait for it; returns how many it scored."""
        some = [name for name, _ in zip(self._due, range(count), strict=False)]
        for name in some:
            del self._due[name]
            if (node := self._ledger.nodes.get(name)) is not None and self._slow is not None and self.fits(name):
                self._place(name, -self._slow(node, self.shape))
        return len(some)

    def score_again(self) -> None:
        """Have every node scored again, the best first; meanwhile the order stays."""
        if self._slow is not None:
            self._due = {name: None for _, name in self._ranked}

    def score_node_again(self, name: str) -> None:
        """Have a node scored again of which something changed that fitting does not depend on."""
        if self._slow is not None and self.fits(name):
            self._due[name] = None

    def follow_changes(self) -> None:
        """Learn which nodes fit now; those that changed wait to be scored where that is slow."""
        position = self._changes.position
        if position == self._position:
            return
        changed = self._changes.since(self._position) if self._position >= 0 else None
        self._position = position
        if changed is None or len(changed) * 4 > len(self._ledger.nodes):
            self._rebuild()
        else:
            for name in changed:
                self._follow(name)

    def fits(self, name: str) -> bool:
        """Whether the node fits; False for an unknown node."""
        return name in self._ranks

    def scores(self, names: Iterable[str]) -> list[int]:
        """The nodes' scores as the scheduler takes them, 0 to 10; 0 for a node that does not fit or is unknown."""
        rank_of = self._ranks.get
        return [round(-MAX_NODE_SCORE * rank_of(name, 0.0)) for name in names]

    def standing(self, name: str) -> Standing | None:
        """Where a node stands; None where it does not fit."""
        rank = self._ranks.get(name)
        return None if rank is None else Standing(-rank, bisect_left(self._ranked, (rank, "")), len(self._ranked))

    @property
    def fitting(self) -> Collection[str]:
        """The names of all fitting nodes, in no particular order."""
        return self._ranks.keys()

    @property
    def after_preemption(self) -> Collection[str]:
        """The names of all nodes that would hold the request if every pod there ended; followed once asked for."""
        if self._after_preemption is None:
            nodes, request = self._ledger.nodes, self.shape.request
            self._after_preemption = {name for name, node in nodes.items() if can_ever_fit(node, request)}
        return self._after_preemption

    def best(self, among: Collection[str], count: int, *, only_equal: bool = False) -> list[str]:
        """The ``count`` best fitting nodes among the given distinct names; ``among`` answers ``in`` quickly.

        ``only_equal``: those alone that are as good as the first, so one or more unless none fits.
        """
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
        """Rank every node again; returns the names whose rank was wrong before. As dear as building the index."""
        self.follow_changes()
        known = self._ranks
        fresh = {name: rank for name, node in self._ledger.nodes.items() if (rank := self._rank(node)) is not None}
        wrong = sorted(name for name in known.keys() | fresh.keys() if known.get(name) != fresh.get(name))
        if wrong or self._ranked != sorted(zip(fresh.values(), fresh.keys(), strict=True)):
            self._rebuild()
        return wrong

    def _rank(self, node: NodeState) -> float | None:
        """The node's place in the order; None where the shape does not fit. Where scoring is slow, that of before."""
        request = self.shape.request
        if not (node.known and node.fits(request)):
            return None
        if self._slow is None:
            return -self._score_node(node, request)
        known = self._ranks.get(node.name)
        return -_UNSCORED * self._score_node(node, request) if known is None else known

    def _rebuild(self) -> None:
        ranks: dict[str, float] = {}
        for name, node in self._ledger.nodes.items():
            if (rank := self._rank(node)) is not None:
                ranks[name] = rank
        self._ranks = ranks
        self._ranked = sorted(zip(ranks.values(), ranks.keys(), strict=True))
        self.score_again()
        self._after_preemption = None

    def _follow(self, name: str) -> None:
        node = self._ledger.nodes.get(name)
        if self._after_preemption is not None:
            self._follow_preemption(name, node, self._after_preemption)
        rank = None if node is None else self._rank(node)
        if self._slow is not None and rank is not None:
            self._due[name] = None
        self._place(name, rank)

    def _place(self, name: str, now: float | None) -> None:
        """Give a node its place in the order; None takes it out."""
        before = self._ranks.get(name)
        if before == now:
            return
        if before is not None:
            del self._ranked[bisect_left(self._ranked, (before, name))]
            del self._ranks[name]
        if now is not None:
            insort(self._ranked, (now, name))
            self._ranks[name] = now

    def _follow_preemption(self, name: str, node: NodeState | None, after_preemption: set[str]) -> None:
        can_fit = node is not None and can_ever_fit(node, self.shape.request)
        (after_preemption.add if can_fit else after_preemption.discard)(name)


class FitIndexes:
    """The indexes of the shapes asked for lately, one per shape. ``slow``: what scores in place of a policy's table."""

    def __init__(
        self,
        ledger: Ledger,
        changes: ChangeLog,
        *,
        limit: int = MAX_SHAPES,
        slow: Mapping[str, SlowScore] = ALL_QUICK,
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._limit = limit
        self._slow = slow
        self._by_shape: OrderedDict[Shape, FitIndex] = OrderedDict()
        self._recounted = 0

    def get(self, shape: Shape) -> FitIndex:
        """Return the shape's index, refreshed; the one unused for longest makes room for a new one."""
        index = self._by_shape.get(shape)
        if index is None:
            slow = self._slow.get(shape.node_policy)
            index = self._by_shape[shape] = FitIndex(self._ledger, self._changes, shape, slow)
            if len(self._by_shape) > self._limit:
                self._by_shape.popitem(last=False)
        else:
            self._by_shape.move_to_end(shape)
        index.refresh()
        return index

    def recount_next(self) -> list[str]:
        """Recount one index, another one each time; returns the names of the nodes that it had ranked wrongly."""
        if not self._by_shape:
            return []
        self._recounted += 1
        indexes = list(self._by_shape.values())
        return indexes[self._recounted % len(indexes)].recount()

    def score_due(self, count: int) -> bool:
        """Score so many of the nodes that wait for it, of one shape after the other; False where none waits."""
        for index in tuple(self._by_shape.values()):
            if index.is_slow:
                index.follow_changes()
                count -= index.score_due(count)
                if count <= 0:
                    return True
        return False

    def score_again(self, policy: str) -> None:
        """Have every node scored again for the shapes of a policy, whose preferences have changed."""
        for index in self._by_shape.values():
            if index.shape.node_policy == policy:
                index.score_again()

    def score_node_again(self, name: str) -> None:
        """Have a node scored again for every shape whose scores are slow; what fits stays."""
        for index in self._by_shape.values():
            index.score_node_again(name)

    def find(self, shape: Shape) -> FitIndex | None:
        """Return the shape's index, refreshed, where it was asked for lately; makes none and keeps none longer."""
        index = self._by_shape.get(shape)
        if index is not None:
            index.refresh()
        return index


def can_ever_fit(node: NodeState, request: CardRequest) -> bool:
    """Whether a request would fit if every pod of the node ended: enough usable, allowed and large cards."""
    if not node.known or not node.serves(request):
        return False
    return sum(state.could_hold(request) for state in node.cards.values()) >= request.cards
