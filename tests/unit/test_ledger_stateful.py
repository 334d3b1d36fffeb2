"""The ledger compared with a model that keeps only the last inputs and computes every figure from scratch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gcushare.core.assignments import ApartGroup, Assignment, CardGrant
from gcushare.core.cards import BOTH_MODES, InventoryCard, UnrecordedHolder
from gcushare.core.errors import ConflictError, Refused
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES
from gcushare.core.requests import CardRequest
from tests.builders import API, GIB_UNIT, WEB, asks, asks_whole, card, pod

NODES = st.sampled_from(["n", "m"])
PODS = st.sampled_from(["a", "b", "c", "d"])
CARDS = st.lists(
    st.tuples(
        st.sampled_from([0, 4, 8, 16]), st.sampled_from(["well", "sick", "cordoned"]), st.sampled_from(["", "x", "x"])
    ),
    max_size=3,
)
MODES = st.sampled_from([BOTH_MODES, BOTH_MODES[:1], BOTH_MODES[1:]])
GRANTS = st.lists(
    st.builds(CardGrant, st.integers(0, 3), st.integers(1, 16), st.booleans()), max_size=2, unique_by=lambda g: g.index
)
GROUPS = st.sampled_from([None, None, WEB, API])
REQUESTS = st.one_of(
    st.builds(asks, st.integers(1, 17), st.integers(1, 2), linked=st.booleans(), apart=GROUPS),
    st.builds(asks_whole, st.integers(1, 3)),
)
UNIT = GIB_UNIT
ENDS = st.sampled_from(["the pod goes", "it is observed", "it is unparked"])


@dataclass
class PlainCard:
    """What is left of one card, added up from everything that names it."""

    offered: InventoryCard | None
    used: int = 0
    whole: int = 0
    pods: int = 0
    grantable: int = 0
    is_empty: bool = False
    groups: list[ApartGroup] = field(default_factory=list)

    @property
    def held(self) -> int:
        if not self.whole or self.offered is None:
            return self.used
        return self.offered.units if self.pods == 1 else max(self.used, self.offered.units)


@dataclass
class PlainNode:
    cards: dict[int, InventoryCard] | None = None
    modes: tuple[str, ...] = BOTH_MODES


@dataclass
class Model:
    """The last word on each node and each pod, and which of them are only reserved."""

    nodes: dict[str, PlainNode] = field(default_factory=lambda: {"n": PlainNode(), "m": PlainNode()})
    held: dict[str, Assignment] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)

    def on(self, node: str) -> dict[str, Assignment]:
        return {uid: each for uid, each in self.held.items() if each.node == node}

    def forget(self, uid: str) -> None:
        for key in [key for key in self.held if key == uid or key.startswith(f"{uid}@")]:
            del self.held[key]
            self.reserved.discard(key)

    def cards_of(self, node: str) -> dict[int, PlainCard]:
        offered = self.nodes[node].cards or {}
        held = list(self.on(node).values())
        found = {index: PlainCard(each) for index, each in offered.items()}
        for holder, grant in ((each, grant) for each in held for grant in each.grants):
            plain = found.setdefault(grant.index, PlainCard(None))
            plain.groups += [holder.apart] if holder.apart is not None else []
            plain.used, plain.whole, plain.pods = plain.used + grant.units, plain.whole + grant.whole, plain.pods + 1
        over = {index for index, plain in found.items() if plain.offered and plain.held > plain.offered.units}
        is_unconfirmed = any(not each.assigned and any(grant.index in over for grant in each.grants) for each in held)
        reported = {str(each.pod) for each in held if each.unrecorded}
        unplaced = [each.unplaced for each in held if str(each.pod) not in reported]
        anywhere = [e.apart for e in held if e.unplaced and e.apart is not None and str(e.pod) not in reported]
        for plain in found.values():
            plain.groups += anywhere
            if plain.offered is None or not plain.offered.is_usable or is_unconfirmed:
                continue
            kept = sum(units for units in unplaced if units <= plain.offered.units)
            if "memory" in self.nodes[node].modes and not plain.whole:
                plain.grantable = max(0, plain.offered.units - plain.used - kept)
            if "whole" in self.nodes[node].modes and plain.offered.units:
                plain.is_empty = not plain.pods and not kept
        return dict(sorted(found.items()))

    def choose(self, node: str, request: CardRequest) -> list[int] | None:
        """Binpack: the fullest cards that fit, of equal ones those in use, then the lowest index; linked ones first."""
        found = self.cards_of(node)
        able = [
            (plain.grantable, plain.pods == 0, index)
            for index, plain in found.items()
            if (plain.is_empty if request.whole else plain.grantable >= request.units)
            and request.apart not in plain.groups
        ]
        if self.nodes[node].cards is None or len(able) < request.cards:
            return None
        linked = [each for each in able if (offered := found[each[2]].offered) is not None and offered.link_group]
        if request.cards > 1 and len(linked) >= request.cards:
            able = linked
        elif request.linked and request.cards > 1:
            return None
        return sorted(index for _, _, index in sorted(able)[: request.cards])


def figures(node: NodeState) -> tuple[object, ...]:
    each = [
        (s.index, s.total, s.used, s.whole, s.pods, s.grantable, s.available, s.is_empty, s.is_available_whole)
        for s in node.cards.values()
    ]
    sums = (node.total, node.used, node.largest_free, node.largest_shared_free, node.empty_cards)
    return (node.known, node.unit, each, sums, dict(node.assignments))


class LedgerMachine(RuleBasedStateMachine):
    """``mirror`` is what a listener knows that looks at a node only when it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.model = Model()
        self.mirror: dict[str, tuple[object, ...]] = {}
        self.ledger.listen(lambda node: self.mirror.update({node.name: figures(node)}))

    @initialize()
    def a_node_has_room(self) -> None:
        """Else most of what is drawn meets nodes without cards, and too little is reserved and parked."""
        self.a_node_is_published("n", [(8, "well", "")] * 3, BOTH_MODES, None, [])

    @rule(node=NODES, found=CARDS, modes=MODES, holder=st.none() | PODS, grants=GRANTS)
    def a_node_is_published(
        self,
        node: str,
        found: list[tuple[int, str, str]],
        modes: tuple[str, ...],
        holder: str | None,
        grants: list[CardGrant],
    ) -> None:
        offered = [
            card(index, units, sick=state == "sick", cordoned=state == "cordoned", link=link)
            for index, (units, state, link) in enumerate(found)
        ]
        sizes = {each.index: each.units for each in offered}
        shared = {grant.index: grant.units for grant in grants if not grant.whole}
        whole = tuple(grant.index for grant in grants if grant.whole)
        unrecorded = [] if holder is None else [UnrecordedHolder(pod=f"default/{holder}", units=shared, whole=whole)]
        self.ledger.set_node(node, offered, UNIT, modes, unrecorded)
        self.model.nodes[node] = PlainNode({each.index: each for each in offered}, modes)
        self._forget_unrecorded(node)
        if holder is not None:
            ref = replace(pod(holder), uid=f"unrecorded:{node}/default/{holder}", priority=2**31)
            of_whole = (CardGrant(index, sizes.get(index, 0), True) for index in sorted(whole))
            of_memory = (CardGrant(index, units) for index, units in sorted(shared.items()))
            self.model.held[ref.uid] = Assignment(ref, node, (*of_memory, *of_whole), assigned=True, unrecorded=True)

    @rule(node=NODES)
    def a_node_goes(self, node: str) -> None:
        self.ledger.remove_node(node)
        self.model.nodes[node] = PlainNode(None, self.model.nodes[node].modes)
        self._forget_unrecorded(node)

    @rule(name=PODS, node=NODES, request=REQUESTS, stamp=st.integers(0, 9))
    def a_pod_asks(self, name: str, node: str, request: CardRequest, stamp: int) -> None:
        uid = f"uid-{name}"
        before = self.mirror.copy()
        if uid in self.model.held:
            with pytest.raises(ConflictError, match="already holds cards"):
                self.ledger.reserve(pod(name), node, request, POLICIES["binpack"].rank_card)
            return
        chosen = self.model.choose(node, request)
        if chosen is None:
            with pytest.raises(Refused, match=f"(?:node {node!r}|{node})"):
                self.ledger.reserve(pod(name), node, request, POLICIES["binpack"].rank_card)
            assert self.mirror == before
            return
        sizes = self.model.nodes[node].cards or {}
        grants = tuple(CardGrant(i, sizes[i].units if request.whole else request.units, request.whole) for i in chosen)
        expected = Assignment(pod(name), node, grants, apart=request.apart)
        assert self.ledger.reserve(pod(name), node, request, POLICIES["binpack"].rank_card) == expected
        if stamp:
            expected = replace(expected, assign_time_ns=stamp)
            assert self.ledger.stamp(uid, stamp) == expected
            self.mirror[node] = figures(self.ledger.nodes[node])  # a time changes no figure, so none is called
        self.model.held[uid] = expected
        self.model.reserved.add(uid)

    @rule(name=PODS, assigned=st.booleans())
    def what_a_pod_holds_is_observed(self, name: str, assigned: bool) -> None:
        held = self.model.held.get(f"uid-{name}")
        if held is not None:
            self._observe(replace(held, assigned=assigned))

    @rule(name=PODS, node=NODES, index=st.integers(0, 1), excess=st.integers(0, 1), assigned=st.booleans())
    def a_pod_is_observed_on_all_of_a_card(self, name: str, node: str, index: int, excess: int, assigned: bool) -> None:
        """With another one that exceeds the card."""
        offered = (self.model.nodes[node].cards or {}).get(index)
        if offered is not None and offered.units:
            self._observe(Assignment(pod(name), node, (CardGrant(index, offered.units + excess),), assigned))
            self._observe(Assignment(pod("d"), node, (CardGrant(index, 1),), assigned=True))

    @rule(node=NODES)
    def a_node_confirms_its_pods(self, node: str) -> None:
        for uid, held in self.model.on(node).items():
            if "@" not in uid and not held.unrecorded:
                self._observe(replace(held, assigned=True))

    @rule(name=PODS, node=NODES, grants=GRANTS, assigned=st.booleans(), unplaced=st.integers(0, 9), apart=GROUPS)
    def a_pod_is_observed(
        self, name: str, node: str, grants: list[CardGrant], assigned: bool, unplaced: int, apart: ApartGroup | None
    ) -> None:
        without_card = 0 if grants else unplaced
        self._observe(Assignment(pod(name), node, tuple(grants), assigned, unplaced=without_card, apart=apart))

    @rule(name=PODS)
    def a_pod_goes(self, name: str) -> None:
        self.ledger.forget(f"uid-{name}")
        self.model.forget(f"uid-{name}")

    @rule(name=PODS)
    def a_binding_fails(self, name: str) -> None:
        uid = f"uid-{name}"
        assert self.ledger.roll_back(uid) == (uid in self.model.reserved)
        if uid in self.model.reserved:
            self.model.reserved.discard(uid)
            del self.model.held[uid]

    @precondition(lambda self: any("@" not in uid for uid in self.model.reserved))
    @rule(data=st.data())
    def a_reservation_is_parked(self, data: st.DataObject) -> None:
        self._park(data.draw(st.sampled_from(sorted(uid for uid in self.model.reserved if "@" not in uid))))

    @rule(name=PODS, node=NODES, units=st.integers(1, 4), times=st.integers(1, 2), end=ENDS)
    def a_binding_whose_answer_is_lost_is_tried_again(
        self, name: str, node: str, units: int, times: int, end: str
    ) -> None:
        for _ in range(times):
            self.a_pod_asks(name, node, asks(units), 0)
            if f"uid-{name}" in self.model.reserved:
                self._park(f"uid-{name}")
        if end == "the pod goes":
            self.a_pod_goes(name)
        elif end == "it is observed":
            self._observe(Assignment(pod(name), node, (CardGrant(0, units),)))
        else:
            self.a_reservation_is_unparked(name, node)

    def _park(self, uid: str) -> None:
        held = self.model.held[uid]
        key = f"{uid}@{held.node}"
        if key in self.model.held:
            with pytest.raises(ConflictError, match="already has a parked reservation"):
                self.ledger.park(uid)
            return
        assert self.ledger.park(uid) == key
        self._move(uid, key)

    @rule(name=PODS, node=NODES)
    def a_reservation_is_unparked(self, name: str, node: str) -> None:
        uid, key = f"uid-{name}", f"uid-{name}@{node}"
        if uid in self.model.held:
            return
        assert self.ledger.unpark(uid, node) == (key if key in self.model.held else None)
        if key in self.model.held:
            self._move(key, uid)

    @invariant()
    def every_figure_is_that_of_the_model(self) -> None:
        for name, plain in self.model.nodes.items():
            held, found = self.model.on(name), self.model.cards_of(name)
            assert (name in self.ledger.nodes) == (plain.cards is not None or bool(held))
            node = self.ledger.nodes.get(name, NodeState(name))
            totals = {index: each.offered.units if each.offered else 0 for index, each in found.items()}
            each_card = [
                (index, totals[index], each.used, each.whole, each.pods, *[each.grantable] * 2, *[each.is_empty] * 2)
                for index, each in found.items()
            ]
            sums = (
                sum(totals.values()),
                sum(each.held for each in found.values()),
                max((each.grantable for each in found.values()), default=0),
                max((each.grantable for each in found.values() if each.pods), default=0),
                sum(each.is_empty for each in found.values()),
            )
            known = plain.cards is not None
            assert figures(node) == (known, UNIT if known else None, each_card, sums, held)
            assert figures(node.copy()) == figures(node)
            assert node.recount() == []
            assert name not in self.mirror or self.mirror[name] == figures(node)
            assert name in self.mirror or name not in self.ledger.nodes
            rules = (asks(1, apart=WEB), asks(2, 2, linked=True), asks(1, 2, linked=True, apart=API))
            for request in (asks(1), asks(9), asks(4, 2), asks_whole(1), asks_whole(2), *rules):
                assert (node.known and node.fits(request)) == (self.model.choose(name, request) is not None)

    @invariant()
    def every_assignment_is_that_of_the_model(self) -> None:
        assert {held.pod.uid: held for held in self.ledger.assignments()} == self.model.held
        assert self.ledger.reserved == self.model.reserved
        for name in "abcd":
            uid = f"uid-{name}"
            held = self.model.held.get(uid)
            assert self.ledger.assignment(uid) == held
            assert self.ledger.is_reserved(uid) == (uid in self.model.reserved)
            assert self.ledger.find_drift(uid, held) is None
            other = Assignment(pod(name), "elsewhere", ())
            drift = self.ledger.find_drift(uid, other)
            assert (drift is None) == (uid in self.model.reserved)
            assert drift is None or (drift.uid, drift.counted, drift.observed) == (uid, held, other)

    def _observe(self, assignment: Assignment) -> None:
        uid = assignment.pod.uid
        self.ledger.apply(assignment)
        self.model.forget(uid)
        self.model.held[uid] = assignment

    def _forget_unrecorded(self, node: str) -> None:
        for uid in [uid for uid, each in self.model.on(node).items() if each.unrecorded]:
            del self.model.held[uid]

    def _move(self, uid: str, key: str) -> None:
        held = self.model.held.pop(uid)
        self.model.held[key] = replace(held, pod=replace(held.pod, uid=key))
        self.model.reserved.discard(uid)
        self.model.reserved.add(key)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=50, stateful_step_count=25, deadline=None, derandomize=True)
