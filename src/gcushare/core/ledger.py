"""The ledger: the one accounting of cards. Every number about cards that is shown comes from here.

Its state depends only on the latest report of each node and each pod, not on their order. Facts (``apply``) are counted
even if they exceed a card, because the node knows better. Grants (``reserve``) never exceed a card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.cards import BOTH_MODES, InventoryCard, UnrecordedHolder
from gcushare.core.errors import ConflictError, Refused
from gcushare.core.explain.reason_text import describe_shortage
from gcushare.core.nodes import NodeState
from gcushare.core.placement import CardRank, choose_cards
from gcushare.core.preemption.kept_room import NOTHING_KEPT, RoomLeft
from gcushare.core.requests import CardRequest
from gcushare.core.units import MemoryUnit, choose_counted

_UNRECORDED = "unrecorded:"
_NEVER_ENDED = 2**31
"""Above every Kubernetes priority: the pod cannot be identified for certain, so it must never be a victim."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A difference between what the ledger counts for a pod and what a recount says."""

    uid: str
    counted: Assignment | None
    observed: Assignment | None


@dataclass(frozen=True, slots=True)
class FigureDrift:
    """Sums of a node, or a ranking of nodes, that did not match the assignments. ``text`` describes the difference."""

    where: str
    text: str


class Ledger:
    """Nodes, cards and assignments by pod uid. Not thread-safe: one task owns it.

    An assignment is *reserved* from ``reserve`` until ``apply`` confirms it or ``roll_back`` returns it. After
    ``apply`` it is *observed*. Listeners (``listen``) are called with each changed node.

    ``unit``: what a pod's request is counted in where nodes differ, or on every node if ``is_given`` (see
    `choose_counted`). Nodes that count otherwise are odd. None: every node counts for every pod.
    """

    def __init__(self, unit: MemoryUnit | None = None, *, is_given: bool = False) -> None:
        self.unit = unit
        self.is_given = is_given
        self._per_gib: dict[str, int] = {}
        """Of each node that serves memory."""
        self._units: Counter[int] = Counter()
        """How many nodes have each of these."""
        self._counted_per_gib: int | None = None
        """Of the unit that pods count in; None while all nodes have one unit and none is given."""
        self.nodes: dict[str, NodeState] = {}
        """Every node by name, including unknown nodes that pods name. Read only."""
        self._node_of: dict[str, str] = {}
        self._reserved: set[str] = set()
        self._parked: dict[str, set[str]] = {}
        self._listeners: list[Callable[[NodeState], None]] = []

    @property
    def has_odd(self) -> bool:
        """Whether nodes may be odd."""
        return self._counted_per_gib is not None

    # Facts

    def set_node(
        self,
        name: str,
        cards: Iterable[InventoryCard],
        unit: MemoryUnit | None,
        modes: Collection[str] = BOTH_MODES,
        unrecorded: Iterable[UnrecordedHolder] = (),
    ) -> None:
        """Set a node's cards, and whether its plugin offers memory, whole cards or both.

        Repeatable. Pods counted there stay counted. The ``unrecorded`` holders replace the previous ones.
        """
        node = self.nodes.setdefault(name, NodeState(name))
        node.set_cards(cards, unit, modes)
        self._replace_unrecorded(node, unrecorded)
        self._compare_units(node)
        self._notify(node)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods stay counted until they are forgotten, in case the node comes back."""
        node = self.nodes.get(name)
        if node is not None:
            self._replace_unrecorded(node, ())
            node.drop_cards()
            self._compare_units(node)
            self._drop_if_unused(node)
            self._notify(node)

    def apply(self, assignment: Assignment) -> None:
        """Count what a pod is observed to hold. Replaces what was counted or reserved for its uid."""
        uid = assignment.pod.uid
        self._reserved.discard(uid)
        self.drop_parked(uid)
        current = self.assignment(uid)
        if current == assignment:
            return
        if current is not None:
            self._remove(uid, notify=current.node != assignment.node)
        self._add(assignment)

    def forget(self, uid: str) -> None:
        """Return everything that a pod holds or has reserved, because it is gone or finished. Repeatable."""
        self._reserved.discard(uid)
        self.drop_parked(uid)
        self._remove(uid)

    # Grants

    def reserve(
        self, pod: PodRef, node_name: str, request: CardRequest, rank: CardRank, *, left: RoomLeft = NOTHING_KEPT
    ) -> Assignment:
        """Choose cards for the request and reserve them until ``apply`` confirms or ``roll_back`` returns them.

        ``left`` limits what the pod may take of cards on which room is kept for pods that go first.

        Raises:
            ConflictError: the pod already holds cards.
            Refused: the node is unknown, or its cards cannot hold the request.
        """
        if (held := self._node_of.get(pod.uid)) is not None:
            raise ConflictError(f"pod {pod} ({pod.uid}) already holds cards of node {held!r}")
        node = self.nodes.get(node_name)
        if node is None or not node.known:
            raise Refused(f"node {node_name!r} has no cards that the scheduler extender knows of")
        chosen = choose_cards(node, request, rank, left) if node.counts_as(request) else None
        if chosen is None:
            raise Refused(describe_shortage(node, request))
        grants = tuple(state.grant(request) for state in chosen)
        assignment = Assignment(pod, node_name, grants, limit=request.limit * request.cards, apart=request.apart)
        self._reserved.add(pod.uid)
        self._add(assignment)
        return assignment

    def stamp(self, uid: str, assign_time_ns: int) -> Assignment:
        """Set the time of binding of a reservation."""
        node = self.nodes[self._node_of[uid]]
        node.assignments[uid] = stamped = replace(node.assignments[uid], assign_time_ns=assign_time_ns)
        return stamped

    def roll_back(self, uid: str) -> bool:
        """Return a reservation whose binding failed. False if it was confirmed or forgotten in the meantime."""
        if uid not in self._reserved:
            return False
        self._reserved.discard(uid)
        self._remove(uid)
        return True

    def park(self, uid: str) -> str:
        """Move a reservation to a key of its own, so that the pod can reserve cards elsewhere. Returns the key.

        Use it when a binding's outcome is unknown: the pod may hold either reservation. The next observation of the pod
        ends both.

        Raises:
            ConflictError: this node already has a parked reservation of the pod; unpark that one instead.
        """
        held = self.nodes[self._node_of[uid]].assignments[uid]
        key = _parked_key(uid, held.node)
        if key in self._reserved:
            raise ConflictError(f"pod {held.pod} ({uid}) already has a parked reservation on node {held.node!r}")
        self.roll_back(uid)
        self._reserved.add(key)
        self._add(replace(held, pod=replace(held.pod, uid=key)))
        self._parked.setdefault(uid, set()).add(key)
        return key

    def unpark(self, uid: str, node_name: str) -> str | None:
        """Move a parked reservation back to the pod's uid. Returns its key, or None if there is none."""
        key = _parked_key(uid, node_name)
        if key not in self._reserved:
            return None
        held = self.nodes[node_name].assignments[key]
        self.roll_back(key)
        self._reserved.add(uid)
        self._add(replace(held, pod=replace(held.pod, uid=uid)))
        return key

    def drop_parked(self, uid: str) -> None:
        """Return a pod's parked reservations, because its node is known now or the pod is gone."""
        for key in self._parked.pop(uid, ()):
            self.roll_back(key)

    # Questions

    @property
    def reserved(self) -> frozenset[str]:
        """Uids of the pods whose binding is under way."""
        return frozenset(self._reserved)

    def is_reserved(self, uid: str) -> bool:
        """Whether this pod's binding is under way."""
        return uid in self._reserved

    def assignment(self, uid: str) -> Assignment | None:
        """What a pod holds or has reserved."""
        name = self._node_of.get(uid)
        return self.nodes[name].assignments[uid] if name is not None else None

    def assignments(self) -> Iterator[Assignment]:
        """All assignments, in no particular order."""
        for node in self.nodes.values():
            yield from node.assignments.values()

    def find_drift(self, uid: str, observed: Assignment | None) -> Drift | None:
        """Compare what is counted for a pod with what was observed. A reservation under way is not a drift."""
        counted = self.assignment(uid)
        is_known = uid in self._reserved or (counted is not None and counted.unrecorded)
        return None if is_known or counted == observed else Drift(uid, counted, observed)

    def recount_node(self, name: str) -> FigureDrift | None:
        """Recompute a node's sums from its assignments. Returns what was wrong before, or None if nothing was."""
        node = self.nodes.get(name)
        wrong = [] if node is None else node.recount()
        if node is None or not wrong:
            return None
        self._notify(node)
        return FigureDrift(name, "; ".join(wrong))

    def listen(self, listener: Callable[[NodeState], None]) -> None:
        """Call ``listener`` with a node's state after each change to it."""
        self._listeners.append(listener)

    def _compare_units(self, changed: NodeState) -> None:
        """Find out which nodes are odd: the one that changed, or all once pods count otherwise."""
        if (before := self._per_gib.pop(changed.name, None)) is not None:
            self._units[before] -= 1
        if changed.known and changed.serves_memory and changed.unit is not None:
            self._per_gib[changed.name] = changed.unit.per_gib
            self._units[changed.unit.per_gib] += 1
        if self.unit is None:
            return
        counted = self._counted_per_gib
        self._counted_per_gib = choose_counted(self._units, self.unit.per_gib, is_given=self.is_given)
        for node in (changed,) if self._counted_per_gib == counted else tuple(self.nodes.values()):
            is_odd = self.has_odd and self._per_gib.get(node.name, self._counted_per_gib) != self._counted_per_gib
            if is_odd != node.is_odd:
                node.is_odd = is_odd
                if node is not changed:
                    self._notify(node)

    def _replace_unrecorded(self, node: NodeState, holders: Iterable[UnrecordedHolder]) -> None:
        """Count the holders without a record that the node reports, in place of its previous report."""
        known = [uid for uid, held in node.assignments.items() if held.unrecorded]
        for uid in known:
            node.remove(uid)
            del self._node_of[uid]
        for holder in holders:
            assignment = _unrecorded_assignment(node, holder)
            if assignment.pod.uid not in self._node_of:
                node.add(assignment)
                self._node_of[assignment.pod.uid] = node.name

    def _add(self, assignment: Assignment) -> None:
        node = self.nodes.setdefault(assignment.node, NodeState(assignment.node))
        node.add(assignment)
        self._node_of[assignment.pod.uid] = assignment.node
        self._notify(node)

    def _remove(self, uid: str, *, notify: bool = True) -> None:
        name = self._node_of.pop(uid, None)
        if name is None:
            return
        node = self.nodes[name]
        node.remove(uid)
        self._drop_if_unused(node)
        if notify:
            self._notify(node)

    def _drop_if_unused(self, node: NodeState) -> None:
        """Drop a node that is unknown and that no pod names."""
        if not node.known and not node.assignments:
            del self.nodes[node.name]

    def _notify(self, node: NodeState) -> None:
        for listener in self._listeners:
            listener(node)


def _unrecorded_assignment(node: NodeState, holder: UnrecordedHolder) -> Assignment:
    """A holder's grants under a uid of our own, because the ledger may also have the pod's real uid, without cards."""
    namespace, _, name = holder.pod.rpartition("/")
    pod = PodRef(f"{_UNRECORDED}{node.name}/{holder.pod}", namespace, name, priority=_NEVER_ENDED)
    sizes = {index: state.total for index, state in node.cards.items()}
    whole = tuple(CardGrant(index, sizes.get(index, 0), whole=True) for index in sorted(holder.whole))
    shared = tuple(CardGrant(index, units) for index, units in sorted(holder.units.items()))
    return Assignment(pod, node.name, (*shared, *whole), assigned=True, unrecorded=True)


def _parked_key(uid: str, node_name: str) -> str:
    return f"{uid}@{node_name}"
