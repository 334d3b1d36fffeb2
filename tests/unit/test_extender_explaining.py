"""Waiting pods are explained with the numbers, by where they are asked about, never at others' expense."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from gcushare.core.explain.explanation import MAX_REMEDIES_TRIED
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.pod_stores import LastFilteredNodes
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.documents.explain import AskedDocument
from gcushare.wire.objects import Node
from tests.extender_objects import (
    a_node,
    a_pod,
    as_pod,
    filter_body,
    known_request,
    node_document,
    on_card,
    pod_document,
    request_of,
    state_of,
)
from tests.running import turns_until_done
from tests.unit.extender_desk import Desk


@pytest.mark.parametrize("seen", [True, False], ids=["seen by the watch", "seen by filter and bind alone"])
async def test_a_pod_whose_binding_is_under_way_is_explained_by_its_card(*, seen: bool) -> None:
    state = state_of(a_node("node-1", 16))
    if seen:
        state.pod_applied(a_pod("a", 4))
    asked = request_of(a_pod("a", 4))
    state.ledger.reserve(asked.pod, "node-1", asked.cards, state.preferences.rank_cards(asked, None))

    assert (await ExplainService(state).explain("default", "a")).state == "bound"


async def test_explaining_a_large_cluster_gives_others_a_turn() -> None:
    state = state_of(*(a_node(f"node-{number}", 16) for number in range(300)))
    state.pod_applied(a_pod("a", 20))
    explaining = asyncio.create_task(ExplainService(state).explain("default", "a"))
    assert await turns_until_done(explaining) >= 4
    assert explaining.result().classes[0].nodes == 300


@pytest.mark.slow
async def test_while_a_node_is_weighed_and_the_next_others_get_a_turn() -> None:
    state = state_of(*(a_node(f"node-{number}", 16) for number in range(MAX_REMEDIES_TRIED)))
    for number in range(MAX_REMEDIES_TRIED):
        state.pod_applied(a_pod(f"p{number}", 10, node=f"node-{number}", record=on_card(0, 10)))
    state.pod_applied(a_pod("a", 12))
    explaining = asyncio.create_task(ExplainService(state).explain("default", "a"), name="explain")
    assert await turns_until_done(explaining) >= MAX_REMEDIES_TRIED
    assert explaining.result().nodes_weighed == MAX_REMEDIES_TRIED


async def test_what_was_found_is_recalled_until_a_node_changes() -> None:
    state = state_of(a_node("node-1", 16))
    for name in ("a", "b"):
        state.pod_applied(a_pod(name, 20))
    service = ExplainService(state)
    first, second = (service.question_of(known_request(state, name)) for name in "ab")
    assert (first, service.cost_of(first)) == (second, 1)

    found = await service.gather(first)
    assert service.cost_of(second) == 0
    assert await service.gather(second) is found

    state.node_applied(a_node("node-2", 16))
    assert service.cost_of(first) == 2
    assert (await service.gather(first)).classes[0].nodes == 2


def restricted() -> VendorState:
    """A waiting pod that the scheduler asked about with one node, which is full, while the other is free."""
    state = state_of(a_node("node-a", 16), a_node("node-b", 16))
    state.pod_applied(a_pod("x", 16, node="node-a", record=on_card(0, 16)))
    state.pod_applied(a_pod("a", 12))
    state.refused_on.record("uid-a", frozenset({"node-a"}))
    return state


async def test_a_pod_is_explained_among_the_nodes_that_the_scheduler_asked_about() -> None:
    document = await ExplainService(restricted()).explain("default", "a")

    assert (document.state, document.can_ever_fit, document.largest_that_fits_now) == ("waits", True, 0)
    assert document.asked == AskedDocument(nodes=1, known=2, fit_elsewhere=1, examples=("node-b",))
    assert [each.examples for each in document.classes] == [("node-a",), ("node-b",)]
    assert document.summary.startswith(
        "needs 12 GB in one card; kube-scheduler asked about 1 of 2 nodes; 1 of the others (node-b) has room, but "
        "something else keeps the pod off: another resource, a volume, a port, affinity to pods; the largest request"
    )


async def test_what_filter_was_asked_is_what_explain_speaks_of() -> None:
    state = restricted()
    state.refused_on.forget("uid-a")
    desk = Desk((state, None))
    desk.filter(filter_body(pod_document("a", 12), ["node-a"]))
    assert (await desk.dispatcher.explain("default", "a")).state == "waits"
    assert state.refused_on.get("uid-a") == frozenset({"node-a"})
    desk.filter(filter_body(pod_document("a", 12), ["node-a", "node-b"]))
    assert state.refused_on.get("uid-a") is None, "it fits there"


class TestNames:
    async def test_a_pod_is_found_by_its_namespace_and_name_wherever_it_is(self) -> None:
        state = state_of(a_node("node-1", 16))
        service = ExplainService(state)
        state.pod_applied(a_pod("a", 4, namespace="other", uid="uid-other"))
        state.pod_applied(a_pod("a", 4))
        assert [(await service.explain(space, "a")).state for space in ("other", "default")] == ["fits", "fits"]

        state.pod_applied(a_pod("a", 4, node="node-1", record=on_card(0, 4)))
        assert (await service.explain("default", "a")).state == "bound"

        state.pod_deleted("uid-a")
        assert service.find("default", "a") is None

    async def test_a_successor_of_the_same_name_is_the_one_matched(self) -> None:
        state = state_of(a_node("node-1", 16))
        state.pod_applied(a_pod("a", 4, node="node-1", record=on_card(0, 4)))
        state.pod_applied(a_pod("a", 4, uid="uid-successor"))
        service = ExplainService(state)
        assert (await service.explain("default", "a")).uid == "uid-successor"

        state.pod_deleted("uid-a")
        assert (await service.explain("default", "a")).uid == "uid-successor"
        state.pod_deleted("uid-successor")
        assert service.find("default", "a") is None


class TestAskedNodes:
    def test_too_many_names_or_pods_push_the_oldest_out(self) -> None:
        asked = LastFilteredNodes(max_pods=3, max_names=4)
        for uid, names in (("a", "xy"), ("b", "xz"), ("c", "w")):
            asked.record(uid, frozenset(names))
        assert [asked.get(uid) for uid in "abc"] == [None, {"x", "z"}, {"w"}]
        for uid in "def":
            asked.record(uid, frozenset("w"))
        assert [asked.get(uid) for uid in "bcdef"] == [None, None, {"w"}, {"w"}, {"w"}]

    def test_a_pod_has_the_set_of_its_last_refusal_or_none(self) -> None:
        asked = LastFilteredNodes(max_names=2)
        asked.record("a", frozenset("x"))
        asked.record("a", frozenset("y"))
        assert asked.get("a") == frozenset("y")
        asked.record("a", frozenset("xyz"))
        assert asked.get("a") is None
        asked.record("b", frozenset("xy"))
        assert asked.get("b") == frozenset("xy")


def labelled(name: str, *sizes: int, labels: dict[str, str], spec: dict[str, Any] | None = None) -> Node:
    document = node_document(name, *sizes)
    document["metadata"]["labels"], document["spec"] = labels, spec or {}
    return msgspec.convert(document, Node)


class TestRules:
    @staticmethod
    def ask(**spec: Any) -> ExplainService:
        """A pod of 18 and what its spec says of nodes; n1 has 16 and 16, n2 8 and 24, and a label."""
        state = state_of(a_node("n1", 16, 16), a_node("n2", 8, 24))
        state.node_applied(labelled("n2", 8, 24, labels={"pool": "b"}))
        pod = pod_document("a", 18)
        pod["spec"].update(spec)
        state.pod_applied(as_pod(pod))
        return ExplainService(state)

    async def test_the_answer_follows_a_node_whose_labels_taints_or_cordon_changed(self) -> None:
        service = self.ask(nodeSelector={"pool": "b"})
        labels = {"pool": "b"}
        for spec, given, found in (
            ({"unschedulable": True}, labels, "waits"),
            ({}, labels | {"zone": "z"}, "fits"),
            ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, labels, "waits"),
            ({}, {}, "waits"),
        ):
            service._state.node_applied(labelled("n2", 8, 24, labels=given, spec=spec))
            assert (await service.explain("default", "a")).state == found

    async def test_a_gated_pod_is_not_said_to_fit_and_its_gates_are_named(self) -> None:
        gates = [{"name": "quota.example.com"}, {"name": "b"}]
        document = await self.ask(schedulingGates=gates).explain("default", "a")

        assert (document.state, document.gates) == ("gated", ("quota.example.com", "b"))
        assert document.summary == (
            "kube-scheduler leaves it alone until its scheduling gates 'quota.example.com', 'b' are removed; needs 18 "
            "GB in one card; it fits now"
        )
