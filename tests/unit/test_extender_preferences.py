"""The extender learns what its cluster's pods ask for, and prefers nodes and cards accordingly."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gcushare.core.fit_index import SCORED_PER_CALL
from gcushare.core.other_resources import Amounts, SpareResources
from gcushare.core.packing.expected_fill import Demand
from gcushare.core.packing.learned_fill import MOST_SHAPES, LearnedFill
from gcushare.core.requests import CardRequest
from gcushare.scheduler_extender.state.preferences import SpareObserver
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Pod, PodStatus
from tests.extender_objects import DEFAULT_POLICIES, a_node, as_pod, as_whole, known_request, on_card, pod_document

EXPECTED_FILL = replace(DEFAULT_POLICIES, node="expected-fill", card="expected-fill")


def make_state(*nodes: str) -> tuple[VendorState, SpareObserver]:
    """A state, and what follows the nodes' and pods' other resources, that know nodes with two cards of 16."""
    spare = SpareResources()
    state, observer = VendorState(ENFLAME, EXPECTED_FILL, spare=spare), SpareObserver(spare)
    for name in nodes:
        observer.node_applied(a_node(name, 16, 16))
        state.node_applied(a_node(name, 16, 16))
    return state, observer


def see(state: VendorState, observer: SpareObserver, *pods: Pod) -> None:
    for pod in pods:
        observer.pod_applied(pod)
        state.pod_applied(pod)


def pod(name: str, units: object = 4, *, cpu: str = "", owner: str = "", **options: Any) -> Pod:
    document = pod_document(name, units, **options)
    document["metadata"]["ownerReferences"] = [{"kind": owner, "name": "x", "uid": "x"}] if owner else []
    if document["spec"].get("nodeName"):
        document["status"] = {**document.get("status", {}), "conditions": [{"type": "PodScheduled", "status": "True"}]}
    if cpu:
        document["spec"]["containers"][0]["resources"]["requests"] |= {"cpu": cpu}
    return as_pod(document)


def learn(state: VendorState) -> None:
    for _ in state.preferences.learn(state.bound):
        pass
    while state.indexes.score_due(1000):
        pass


def best(state: VendorState, name: str, names: list[str]) -> list[str]:
    index = state.indexes.get(known_request(state, name).shape)
    while state.indexes.score_due(1000):
        pass
    return index.best(dict.fromkeys(names), 1)


def test_it_learns_from_the_pods_on_nodes_with_cards_but_not_from_those_that_are_on_every_node() -> None:
    state, observer = make_state("node-1")
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
    learned = (Demand(1, 4, False, 2000), Demand(1, 0, True), Demand(0, 0, False, 3000))
    assert state.preferences.fill.typical == dict.fromkeys(learned, 1)


def test_it_learns_again_when_a_tenth_more_or_fewer_or_other_pods_are_there() -> None:
    state, observer = make_state()
    assert not state.preferences.has_changed
    for name in ("node-1", "elsewhere"):
        observer.node_applied(a_node(name, 16))
    state.node_applied(a_node("node-1", 16))
    assert state.preferences.has_changed, "the first node"
    learn(state)
    assert not state.preferences.has_changed
    running = [pod(f"p{number}", None, cpu="1", node="node-1") for number in range(40)]
    see(state, observer, running[0])
    assert state.preferences.has_changed, "the first pod"
    see(state, observer, *running[1:])
    learn(state)

    see(state, observer, *running, *(pod(f"more-{number}", None, cpu="1", node="node-1") for number in range(4)))
    assert not state.preferences.has_changed, "a tenth, but no more; pods that are seen again do not count"
    observer.pod_deleted("uid-p0")
    assert state.preferences.has_changed, "others"
    learn(state)
    assert not state.preferences.has_changed
    for number in range(1, 6):
        observer.pod_deleted(f"uid-p{number}")
    assert state.preferences.has_changed, "fewer"


def fragmented() -> tuple[VendorState, SpareObserver]:
    """Pods ask for 8, hardly one for other sizes. Node a has 8 free on a card, node b 4 and 8; node a is the fuller."""
    state, observer = make_state("a", "b")
    for number, (where, index, units) in enumerate([("a", 0, 8), ("a", 1, 8), ("a", 1, 8), ("b", 0, 12), ("b", 1, 8)]):
        see(state, observer, pod(f"p{number}", units, node=where, record=on_card(index, units)))
    see(state, observer, pod("new", 4))
    return state, observer


def test_a_small_share_goes_where_the_typical_one_does_not_fit() -> None:
    state, _ = fragmented()
    learn(state)
    assert best(state, "new", ["a", "b"]) == ["b"]
    request = known_request(state, "new")
    held = state.ledger.reserve(
        request.pod, "b", request.cards, state.preferences.rank_cards(request, state.ledger.nodes["b"])
    )
    assert [grant.index for grant in held.grants] == [0]


def test_a_pod_without_cards_that_takes_a_nodes_cpu_moves_the_node_back() -> None:
    state, observer = fragmented()
    learn(state)
    see(state, observer, pod("asks", 4, cpu="10"))
    assert best(state, "asks", ["a", "b"]) == ["b"]
    see(state, observer, pod("takes", None, cpu="60", node="b"))
    assert best(state, "asks", ["a", "b"]) == ["a"]
    observer.pod_deleted("uid-takes")
    assert best(state, "asks", ["a", "b"]) == ["b"]


async def test_nodes_that_a_call_left_for_later_are_scored_in_the_background() -> None:
    state, observer = fragmented()
    for number in range(3 * SCORED_PER_CALL):
        observer.node_applied(a_node(f"more-{number}", 16))
        state.node_applied(a_node(f"more-{number}", 16))
    for _ in state.preferences.learn(state.bound):
        pass
    index = state.indexes.get(known_request(state, "new").shape)
    assert index._due
    scoring = asyncio.create_task(state.preferences.run())
    for _ in range(60_000):  # a minute, on the busiest machine more
        if not index._due:
            break
        await asyncio.sleep(0.001)
    scoring.cancel()
    assert not index._due
    assert index.best(dict.fromkeys(state.ledger.nodes), 1) == ["b"]


def test_pods_of_other_policies_share_an_order_whatever_cpu_they_ask_for() -> None:
    state = VendorState(ENFLAME, DEFAULT_POLICIES)
    state.pod_applied(pod("a", 4, cpu="1"))
    state.pod_applied(pod("b", 4, cpu="2"))
    shapes = {known_request(state, name).shape for name in "ab"}
    assert len(shapes) == 1
    assert shapes.pop().request == CardRequest(4)


@pytest.mark.slow
def test_pods_whose_authors_named_the_node_and_that_no_kubelet_accepted_teach_nothing() -> None:
    """Its kubelet is down, say: they stay Pending, and a pod's author may make any number of them."""
    state, observer = make_state("node-1")
    see(state, observer, pod("a", 4, cpu="2", node="node-1", record=on_card(0, 4)))
    learn(state)
    before = dict(state.preferences.fill.typical)
    for number in range(500):
        forged = pod(f"forged-{number}", number % 3, cpu=f"{1000 + number}m", node="node-1")
        see(state, observer, msgspec.structs.replace(forged, status=PodStatus()))
    learn(state)
    assert state.preferences.fill.typical == before
    assert before == {Demand(1, 4, False, 2000, 0): 1}


@pytest.mark.slow
def test_of_a_hundred_thousand_different_requests_the_common_ones_stay() -> None:
    """Each value of a node takes a step for each that stays."""
    common = Demand(1, 500, False, 4000, 8000)
    seen = {Demand(2, 1 + number % 7, False, number): 1 for number in range(100_000)} | {common: 5}
    fill = LearnedFill(lambda _name: Amounts(64_000, 262_144))
    assert fill.learn(seen, 1000)
    assert common in fill.typical
    assert len(fill.typical) == MOST_SHAPES
