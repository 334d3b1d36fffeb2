"""Reduces a snapshot to what tables and documents show: nodes in their sort order, amounts in one unit, marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gcushare.cli.kubectl.flags import SortKey
from gcushare.cli.kubectl.marks import Mark
from gcushare.cluster.snapshot import ClusterSnapshot, NodeFacts, PodFacts
from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.card_state import CardState
from gcushare.core.cards import Health
from gcushare.core.nodes import NodeState
from gcushare.core.units import MemoryUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """One node: its figures are in the summary's unit, ``state`` counts in the node's own."""

    state: NodeState
    facts: NodeFacts
    scale: Scale
    total: Fraction
    allocated: Fraction
    pending: Fraction
    pending_pods: tuple[PodFacts, ...]
    unplaced_pods: tuple[PodFacts, ...]
    """Pods that hold memory of unknown cards: more is in use than the figures say."""
    corrected_cards: frozenset[int]
    over_used_cards: frozenset[int]
    """Cards that pods of this node use beyond their grants."""
    sharing_pods: tuple[tuple[PodFacts, Assignment], ...] = ()
    """Pods that share claims, with what they share: the figures have it once, under another pod."""

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def room(self) -> Fraction:
        """What is free on all usable cards."""
        return sum((self.amount(card.available) for card in self.state.cards.values()), Fraction(0))

    @property
    def free(self) -> Fraction:
        """What new pods may be given here, those that tolerate its taints; nothing while it takes no pods."""
        return self.room if self.facts.takes_pods else Fraction(0)

    @property
    def whole_cards_free(self) -> int:
        """How many cards new pods may get whole."""
        return self.facts.takes_pods * sum(card.is_available_whole for card in self.state.cards.values())

    @property
    def models(self) -> tuple[str, ...]:
        """The cards' models, each once."""
        found = (card.card.model for card in self.state.cards.values() if card.card is not None)
        return tuple(dict.fromkeys(model for model in found if model))

    def amount(self, units: int) -> Fraction:
        """An amount of this node in the summary's unit."""
        return self.scale.amount(units, self.state.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is shown of a snapshot. ``of_namespace`` is what one namespace holds, if one was asked for."""

    snapshot: ClusterSnapshot
    scale: Scale
    nodes: tuple[NodeSummary, ...]
    card_indexes: tuple[int, ...]
    """Every index that some node's card has, in order: the columns of a table."""
    waiting: tuple[PodFacts, ...]
    namespace: str | None
    total: Fraction
    allocated: Fraction
    of_namespace: Fraction

    @property
    def percent(self) -> int:
        return percent_of(self.allocated, self.total)

    @property
    def waiting_units(self) -> int:
        return sum(facts.units for facts in self.waiting)

    def facts_of(self, assignment: Assignment) -> PodFacts:
        """What is known of the pod that holds something; its state is unknown to callers that may not read pods."""
        found = self.snapshot.pods.get(assignment.pod.uid)
        return found or PodFacts(ref=assignment.pod, state="", node=assignment.node, units=assignment.units)

    @property
    def free(self) -> Fraction:
        """What is free for any pod: on nodes that take pods and have no taint."""
        return sum((node.free for node in self.nodes if not node.facts.taints), Fraction(0))

    @property
    def free_if_tolerated(self) -> Fraction:
        """What is free on nodes with taints, for pods that tolerate them."""
        return sum((node.free for node in self.nodes if node.facts.taints), Fraction(0))

    def shown_pods(self, node: NodeSummary) -> list[Assignment]:
        """The node's pods that hold cards, of the namespace asked for, first card first."""
        held = [each for each in node.state.assignments.values() if each.grants and self._is_shown(each.pod)]
        return sorted(held, key=lambda each: (min(g.index for g in each.grants), each.assign_time_ns, str(each.pod)))

    def shown(self, pods: Iterable[PodFacts]) -> list[PodFacts]:
        """Those of the pods that are of the namespace asked for."""
        return [facts for facts in pods if self._is_shown(facts.ref)]

    def _is_shown(self, pod: PodRef) -> bool:
        return self.namespace in (None, pod.namespace)


def summarise(
    snapshot: ClusterSnapshot,
    *,
    sort_by: SortKey = SortKey.NAME,
    namespace: str | None = None,
    is_finest: bool = False,
) -> Summary:
    """Reduce a snapshot. ``is_finest``: amounts are in the finest unit of a node, so that all are whole numbers."""
    states = snapshot.nodes_with_cards()
    scale = choose_scale((state.unit for state in states), is_finest=is_finest)
    pending, unplaced, sharing = snapshot.without_card(), snapshot.unplaced(), snapshot.sharing()
    nodes = [
        replace(
            _summarise_node(snapshot, state, scale, pending.get(state.name, ()), unplaced.get(state.name, ())),
            sharing_pods=tuple(sharing.get(state.name, ())),
        )
        for state in states
    ]
    nodes.sort(key=lambda node: (_ORDERS[sort_by](node), natural_key(node.name)))
    held = (
        node.amount(node.state.share(each))
        for node in nodes
        for each in node.state.assignments.values()
        if namespace is not None and each.pod.namespace == namespace
    )
    return Summary(
        snapshot=snapshot,
        scale=scale,
        nodes=tuple(nodes),
        card_indexes=tuple(sorted({index for state in states for index in state.cards})),
        waiting=tuple(f for f in snapshot.waiting() if namespace is None or f.ref.namespace == namespace),
        namespace=namespace,
        total=sum((node.total for node in nodes), Fraction(0)),
        allocated=sum((node.allocated for node in nodes), Fraction(0)),
        of_namespace=sum(held, Fraction(0)),
    )


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Order names as people count: node-2 before node-10."""
    parts = (part for part in re.split(r"([0-9]+)", name) if part)
    return tuple((0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part) for part in parts)


def marks_of_card(state: CardState, node: NodeSummary | None = None) -> tuple[Mark, ...]:
    """Marks for unusual states of a card; with its ``node`` also of the pods on it."""
    card = state.card
    found = {
        Mark.GONE: card is None,
        Mark.SICK: card is not None and card.health is not Health.HEALTHY,
        Mark.CORDONED: card is not None and card.cordoned,
        Mark.CLOSED: card is not None and bool(card.closures),
        Mark.WHOLE: bool(state.whole),
        Mark.OVER: card is not None and state.held > state.total,
        Mark.OVER_USE: node is not None and state.index in node.over_used_cards,
        Mark.CORRECTED: node is not None and state.index in node.corrected_cards,
    }
    return tuple(mark for mark, is_so in found.items() if is_so)


def _summarise_node(
    snapshot: ClusterSnapshot, state: NodeState, scale: Scale, pending: Sequence[PodFacts], unplaced: Sequence[PodFacts]
) -> NodeSummary:
    corrected = (
        grant.index
        for uid, each in state.assignments.items()
        if uid in snapshot.pods and snapshot.pods[uid].corrected
        for grant in each.grants
    )
    over_used = (
        index for uid in state.assignments if uid in snapshot.pods for index in snapshot.pods[uid].over_used_cards
    )
    return NodeSummary(
        state=state,
        facts=snapshot.node_facts.get(state.name) or NodeFacts(name=state.name),
        scale=scale,
        total=scale.amount(state.total, state.unit),
        allocated=scale.amount(state.used, state.unit),
        pending=scale.amount(sum(facts.units for facts in pending), state.unit),
        pending_pods=tuple(pending),
        unplaced_pods=tuple(unplaced),
        corrected_cards=frozenset(corrected),
        over_used_cards=frozenset(over_used),
    )


_ORDERS: Mapping[SortKey, Callable[[NodeSummary], Fraction | int]] = {
    SortKey.NAME: lambda _node: 0,
    SortKey.TOTAL: lambda node: -node.total,
    SortKey.ALLOCATED: lambda node: -node.allocated,
    SortKey.FREE: lambda node: -node.free,
    SortKey.PERCENT: lambda node: -(node.allocated / node.total if node.total else 0),
    SortKey.PODS: lambda node: -len(node.state.assignments),
}
"""Nodes of one value are in order of name."""


UNKNOWN_UNIT = "units"
"""The heading if no node reports its unit, as with another system's plugin."""

_DECIMALS = 3
"""Digits after the point: exact for every decimal unit; MiB in a table of GiB are rounded."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The unit of a table. ``per_gib`` is None if no unit is known; amounts are then shown unconverted."""

    label: str
    per_gib: int | None

    def amount(self, units: int, unit: MemoryUnit | None) -> Fraction:
        """Convert ``units`` of a node that counts in ``unit``; an unknown unit counts as this one."""
        if unit is None or self.per_gib is None:
            return Fraction(units)
        return Fraction(units * self.per_gib, unit.per_gib)

    def is_native(self, unit: MemoryUnit | None) -> bool:
        """Whether a node counts in this very unit."""
        return (unit.per_gib if unit is not None else None) == self.per_gib


def choose_scale(units: Iterable[MemoryUnit | None], *, is_finest: bool = False) -> Scale:
    """Choose the unit of a table: the nodes' own if they agree, else the finest, or GB or GiB."""
    known = {unit for unit in units if unit is not None}
    if not known:
        return Scale(UNKNOWN_UNIT, None)
    if is_finest or len({unit.per_gib for unit in known}) == 1:
        unit = min(known, key=lambda each: (-each.per_gib, each.name))
        return Scale(unit.label, unit.per_gib)
    return Scale("GiB" if any(unit.label.endswith("iB") for unit in known) else "GB", 1)


def show_amount(amount: Fraction) -> str:
    """Write an amount without needless digits: ``16``, ``1.5``, ``0.333``."""
    if amount.denominator == 1:
        return str(amount.numerator)
    return f"{float(amount):.{_DECIMALS}f}".rstrip("0").rstrip(".")


def percent_of(part: Fraction | int, whole: Fraction | int) -> int:
    """Return whole percents, 0 if the whole is 0: rounded down in floating point as upstream, so 29 of 100 are 28 %."""
    return int(float(part) / float(whole) * 100) if whole else 0
