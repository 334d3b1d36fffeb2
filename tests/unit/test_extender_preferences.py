"""The extender learns what its cluster's pods ask for, and prefers nodes and cards accordingly."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from gcushare.core.fit_index import SCORED_PER_CALL
from gcushare.core.packing.expected_fill import Demand
from gcushare.core.packing.spare import SpareResources
from gcushare.core.requests import CardRequest
from gcushare.scheduler_extender.state.preferences import SpareObserver
from gcushare.scheduler_extender.state.scheduling_request import Policies, SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Pod
from tests.extender_objects import a_node, as_whole, on_card, pod_document

EXPECTED_FILL = Policies("expected-fill", "expected-fill")


def make_state() -> tuple[VendorState, SpareObserver]:
    spare = SpareResources()
    return VendorState(ENFLAME, EXPECTED_FILL, spare=spare), SpareObserver(spare)


def see(state: VendorState, observer: SpareObserver, *pods: Pod) -> None:
    for pod in pods:
        observer.on_pod_update(pod)
        state.on_pod_update(pod)


def pod(name: str, units: object = 4, *, cpu: str = "", owner: str = "", **options: Any) -> Pod:
    document = pod_document(name, units, **options)
    document["metadata"]["ownerReferences"] = [{"kind": owner, "name": "x", "uid": "x"}] if owner else []
    if cpu:
        document["spec"]["containers"][0]["resources"]["requests"] = {
            **document["spec"]["containers"][0]["resources"]["requests"],
            "cpu": cpu,
        }
    return msgspec.convert(document, Pod)


def learn(state: VendorState) -> None:
    for _ in state.preferences.learn(state.bound):
        pass
    while state.indexes.score_due(1000):
        pass


def best(state: VendorState, name: str, names: list[str]) -> list[str]:
    request = state.find_request(f"uid-{name}")
    assert isinstance(request, SchedulingRequest)
    index = state.indexes.get(request.shape)
    while state.indexes.score_due(1000):
        pass
    return index.best(dict.fromkeys(names), 1)


def test_it_learns_from_the_pods_on_nodes_with_cards_but_not_from_those_that_are_on_every_node() -> None:
    state, observer = make_state()
    node = a_node("node-1", 16, 16)
    observer.on_node_update(node)
    state.on_node_update(node)
    see(
        state,
        observer,
        pod("a", 4, cpu="2", node="node-1", record=on_card(0, 4)),
        pod("b", None, whole=1, node="node-1", record=as_whole(1)),
        pod("c", None, cpu="3", node="node-1"),
        pod("d", None, cpu="1", owner="DaemonSet", node="node-1"),
        pod("e", None, cpu="3", node="elsewhere"),
        pod("f", 8, cpu="2"),
        pod("g", 8, phase="Succeeded", node="node-1", record=on_card(0, 8)),
    )
    learn(state)
    assert state.preferences.typical == {
        Demand(1, 4, False, 2000): 1,
        Demand(1, 0, True): 1,
        Demand(0, 0, False, 3000): 1,
    }


def fragmented() -> tuple[VendorState, SpareObserver]:
    """Pods ask for 8, hardly one for other sizes. Node a has 8 free on a card, node b 4 and 8; node a is the fuller."""
    state, observer = make_state()
    for name in ("a", "b"):
        node = a_node(name, 16, 16)
        observer.on_node_update(node)
        state.on_node_update(node)
    for number, (where, index, units) in enumerate([("a", 0, 8), ("a", 1, 8), ("a", 1, 8), ("b", 0, 12), ("b", 1, 8)]):
        see(state, observer, pod(f"p{number}", units, node=where, record=on_card(index, units)))
    see(state, observer, pod("new", 4))
    return state, observer


def test_a_small_share_goes_where_the_typical_one_does_not_fit() -> None:
    state, _ = fragmented()
    learn(state)
    assert best(state, "new", ["a", "b"]) == ["b"]
    request = state.find_request("uid-new")
    assert request is not None
    held = state.ledger.reserve(
        request.pod, "b", request.cards, state.preferences.rank_cards(request, state.ledger.nodes["b"])
    )
    assert [grant.index for grant in held.grants] == [0]


def test_a_restarted_extender_prefers_the_same_whatever_the_order_of_the_lists() -> None:
    first, _ = fragmented()
    learn(first)
    second, observer = make_state()
    for name in ("b", "a"):
        node = a_node(name, 16, 16)
        observer.on_node_update(node)
        second.on_node_update(node)
    pods = [
        pod(held.pod.name, held.units, node=held.node, record=on_card(held.grants[0].index, held.units))
        for held in first.bound.values()
    ]
    see(second, observer, pod("new", 4), *reversed(pods))
    learn(second)

    assert first.preferences.typical == second.preferences.typical
    assert best(second, "new", ["a", "b"]) == ["b"]
    shape = first.find_request("uid-new").shape  # type: ignore[union-attr]
    assert first.indexes.get(shape).scores("ab") == second.indexes.get(shape).scores("ab")


def test_a_pod_without_cards_that_takes_a_nodes_cpu_moves_the_node_back() -> None:
    state, observer = fragmented()
    learn(state)
    see(state, observer, pod("asks", 4, cpu="10"))
    assert best(state, "asks", ["a", "b"]) == ["b"]
    see(state, observer, pod("takes", None, cpu="60", node="b"))
    assert best(state, "asks", ["a", "b"]) == ["a"]
    observer.on_pod_delete("uid-takes")
    assert best(state, "asks", ["a", "b"]) == ["b"]


def test_a_change_of_cpu_alone_is_no_change_of_the_ledger() -> None:
    state, observer = make_state()
    node = a_node("a", 16)
    observer.on_node_update(node)
    state.on_node_update(node)
    before = state.changes.position
    see(state, observer, pod("web", None, cpu="4", node="a"))
    assert state.changes.position == before


async def test_nodes_that_a_call_left_for_later_are_scored_beside_the_calls() -> None:
    state, observer = fragmented()
    for number in range(3 * SCORED_PER_CALL):
        node = a_node(f"more-{number}", 16)
        observer.on_node_update(node)
        state.on_node_update(node)
    for _ in state.preferences.learn(state.bound):
        pass
    request = state.find_request("uid-new")
    assert request is not None
    index = state.indexes.get(request.shape)
    assert index.due > 0
    scoring = asyncio.create_task(state.preferences.run())
    for _ in range(60_000):  # a minute, on the busiest machine more
        if not index.due:
            break
        await asyncio.sleep(0.001)
    scoring.cancel()
    assert index.due == 0
    assert index.best(dict.fromkeys(state.ledger.nodes), 1) == ["b"]


def test_pods_of_other_policies_share_an_order_whatever_cpu_they_ask_for() -> None:
    state = VendorState(ENFLAME, Policies())
    state.on_pod_update(pod("a", 4, cpu="1"))
    state.on_pod_update(pod("b", 4, cpu="2"))
    shapes = {request.shape for request in map(state.find_request, ("uid-a", "uid-b")) if request is not None}
    assert len(shapes) == 1
    assert shapes.pop().request == CardRequest(4)
