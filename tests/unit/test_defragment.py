from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcushare.cli.defragment.defragment import find_movable
from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Closure
from gcushare.core.errors import Refused
from gcushare.core.ledger import Ledger
from gcushare.core.packing.defragment import RoomPlan, copy_ledger, plan_room, prove
from gcushare.core.requests import CardRequest, CardSelection
from gcushare.vendors import ALIYUN
from gcushare.wire.objects import Container, ObjectMeta, OwnerReference, Pod, PodSpec, ResourceRequirements
from tests.builders import WEB, cards, present

SIZE = 16


def ledger_of(*nodes: tuple[tuple[int, ...], ...]) -> tuple[Ledger, dict[str, CardRequest]]:
    """Nodes of cards of pods with so many units; every pod may be moved."""
    ledger, movable = Ledger(), {}
    for number, held in enumerate(nodes):
        ledger.set_node(f"n-{number}", cards(*[SIZE] * len(held)), None)
        for index, pods in enumerate(held):
            for position, units in enumerate(pods):
                uid = f"{number}/{index}/{position}"
                grants = (CardGrant(index, units),)
                ledger.apply(Assignment(PodRef(uid, "default", uid), f"n-{number}", grants, assigned=True))
                movable[uid] = CardRequest(units)
    return ledger, movable


def planned(ledger: Ledger, movable: Mapping[str, CardRequest], wanted: CardRequest) -> RoomPlan:
    return present(plan_room(ledger, wanted, movable, ledger.nodes))


def test_nothing_moves_where_the_wanted_fits() -> None:
    plan = planned(*ledger_of(((8,), (15,))), CardRequest(8))
    assert (plan.moves, plan.cards) == ((), (0,))


def test_the_fewest_pods_move_and_of_those_the_smallest() -> None:
    plan = planned(*ledger_of(((4, 4, 4), (5, 9)), ((6, 5), (10,))), CardRequest(11))
    assert [(move.pod.uid, move.target) for move in plan.moves] == [("1/0/0", "n-1")]  # the 6 next to the 10


def test_a_pod_moves_to_no_card_of_one_that_it_is_kept_apart_from() -> None:
    ledger, movable = ledger_of(((4,),), ((12,), (2,)))
    movable = {"0/0/0": movable["0/0/0"]}
    for group, target in ((None, (0,)), (WEB, (1,))):
        for uid in ("0/0/0", "1/0/0"):
            held = present(ledger.assignment(uid))
            ledger.apply(replace(held, apart=group))
        movable = {uid: CardRequest(4, selection=CardSelection(apart=group)) for uid in movable}
        plan = planned(ledger, movable, CardRequest(16))
        assert [(move.target, move.target_cards) for move in plan.moves] == [("n-1", target)]


def test_a_pod_that_may_not_move_stays() -> None:
    ledger, movable = ledger_of(((9,), (9,)))
    del movable["0/0/0"]
    assert (
        plan_room(ledger, CardRequest(16), movable, ledger.nodes) is None
    )  # the other one finds no place next to a 9 either


def test_a_whole_card_is_made_free_by_moving_all_its_pods() -> None:
    plan = planned(*ledger_of(((2, 3), (8,)), ((9,),)), CardRequest(0, 1, whole=True))
    assert [move.pod.uid for move in plan.moves] in (["0/1/0"], ["1/0/0"])


def test_a_plan_is_refused_when_a_pod_is_not_where_it_was() -> None:
    ledger, movable = ledger_of(((8, 4),), ((12,),))
    plan = planned(ledger, movable, CardRequest(8))
    ledger.forget(plan.moves[0].pod.uid)
    with pytest.raises(Refused, match="plan again"):
        prove(ledger, plan)


def test_pods_move_only_onto_the_nodes_that_are_open() -> None:
    ledger, movable = ledger_of(((8, 4),), ((12,),))
    assert plan_room(ledger, CardRequest(8), movable, ["n-0"]) is None


def keep(ledger: Ledger, node: str, units: int) -> None:
    """A bound pod whose card is not known: so much is kept for it on each card of its node."""
    ledger.apply(Assignment(PodRef(f"unknown on {node}", "default", "unknown"), node, (), unplaced=units))


def close(ledger: Ledger, node: str, use: str) -> None:
    """Have the node's cards take no new pods of a use."""
    state = ledger.nodes[node]
    offered = [each.card for each in state.cards.values() if each.card is not None]
    closed = [msgspec.structs.replace(card, closures=(Closure(use=use, pod="default/gone"),)) for card in offered]
    ledger.set_node(node, closed, state.unit)


@pytest.mark.parametrize(
    ("wanted", "use"),
    [
        pytest.param(CardRequest(12), SERVES_MEMORY, id="memory"),
        pytest.param(CardRequest(0, whole=True), SERVES_WHOLE, id="a whole card"),
    ],
)
def test_a_node_that_cannot_be_cleared_is_passed_over_for_the_next_one(wanted: CardRequest, use: str) -> None:
    """The first node would move fewer units: but more is kept there, or its card takes no such pods."""
    for spoil in (keep, close):
        ledger, movable = ledger_of(((5,),), ((6,),), ((9,),))
        if spoil is keep:
            keep(ledger, "n-0", 8)
        else:
            close(ledger, "n-0", use)
        plan = planned(ledger, movable, wanted)
        assert (plan.node, [move.pod.uid for move in plan.moves]) == ("n-1", ["1/0/0"])


@settings(deadline=None)
@given(
    st.lists(st.lists(st.lists(st.integers(1, 7), max_size=3), min_size=1, max_size=3), min_size=1, max_size=3),
    st.one_of(st.integers(1, SIZE).map(CardRequest), st.just(CardRequest(0, whole=True))),
    st.integers(0, SIZE),
    st.sampled_from(["", SERVES_MEMORY, SERVES_WHOLE]),
)
def test_every_plan_comes_true_and_leaves_the_ledger_as_it_was(
    nodes: list[list[list[int]]], wanted: CardRequest, kept: int, closed: str
) -> None:
    """Also where on the first node something is kept, or its cards are closed to a use."""
    shape = tuple(tuple(tuple(pods) for pods in cards) for cards in nodes)
    ledger, movable = ledger_of(*shape)
    if kept:
        keep(ledger, "n-0", kept)
    if closed:
        close(ledger, "n-0", closed)
    before = {each.pod.uid: each for each in ledger.assignments()}
    plan = plan_room(ledger, wanted, movable, ledger.nodes)
    assert {each.pod.uid: each for each in ledger.assignments()} == before
    if plan is None:
        return
    prove(ledger, plan)
    done = copy_ledger(ledger)
    for move in plan.moves:
        done.forget(move.pod.uid)
    assert done.nodes[plan.node].fits(wanted)


@pytest.mark.parametrize(
    ("owner", "annotations", "priority", "is_movable"),
    [
        pytest.param("ReplicaSet", {}, 0, True, id="a ReplicaSet makes it again"),
        pytest.param("", {}, 0, False, id="no controller"),
        pytest.param("DaemonSet", {}, 0, False, id="DaemonSet"),
        pytest.param("Job", {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, 0, False, id="exempt"),
        pytest.param("Job", {}, 1, False, id="priority too high"),
        pytest.param("Job", {}, 0, True, id="priority as high as allowed"),
    ],
)
def test_only_pods_that_come_again_and_are_not_exempt_move(
    owner: str, annotations: dict[str, str], priority: int, is_movable: bool
) -> None:
    owners = (OwnerReference(kind=owner, name="o", uid="o", controller=True),) if owner else ()
    container = Container(name="c", resources=ResourceRequirements(limits={ALIYUN.memory_resource: "4"}))
    pod = Pod(
        metadata=ObjectMeta(name="p", uid="p", annotations=annotations, owner_references=owners),
        spec=PodSpec(node_name="n", priority=priority, containers=(container,)),
    )
    movable, kept = find_movable([pod], ALIYUN)
    assert (set(movable), sum(kept.values())) == (({"p"}, 0) if is_movable else (set(), 1))
