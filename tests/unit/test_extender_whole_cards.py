"""Whole and shared cards, as the extender answers for them: one ledger, from filter to inspect."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.assignments import PodRef
from gcushare.core.card_state import CardMode
from gcushare.core.cards import BOTH_MODES, SERVES_WHOLE
from gcushare.core.errors import Refused
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.dashboard.feed_documents import NO_NODE_METADATA, NodeContext, node_document
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.leadership import AlwaysLeader
from gcushare.scheduler_extender.state.scheduling_request import read_scheduling_request
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import AVOID_CARDS, CARD_MODE, WHOLE_CARD_POLICY
from gcushare.wire.documents.inspect import encode_node
from gcushare.wire.extender_api import BindArguments
from gcushare.wire.objects import Node, Pod
from tests.extender_objects import (
    DEFAULT_POLICIES,
    Document,
    a_node,
    a_pod,
    as_whole,
    filter_body,
    on_card,
    pod_document,
    state_of,
)
from tests.unit.extender_cluster import Cluster
from tests.unit.extender_desk import Desk

WHOLE = {"modes": (SERVES_WHOLE,)}
BOTH = {"modes": BOTH_MODES}


def mixed_state() -> VendorState:
    """One node of each kind, two cards of 16 each."""
    return state_of(a_node("both", 16, 16, **BOTH), a_node("memory", 16, 16), a_node("whole", 16, 16, **WHOLE))


def answer_of(state: VendorState, pod: Document, names: list[str]) -> Any:
    return json.loads(Desk((state, None)).filter(filter_body(pod, names)).body)


def ask_filter(state: VendorState, pod: Document) -> Any:
    return answer_of(state, pod, ["both", "memory", "whole", "stranger"])


class Rig:
    """A bind service over a cluster whose one node serves both."""

    def __init__(self, *pods: Pod, sizes: tuple[int, ...] = (16, 16, 16)) -> None:
        self.sizes = sizes
        self.state = state_of(a_node("node-1", *sizes, **BOTH))
        self.cluster = Cluster(*pods)
        self.cluster.tell(self.state)
        self.service = BindService(self.state, self.cluster.client, AlwaysLeader())

    async def bind(self, name: str) -> dict[str, str]:
        """Bind, let the watch tell it, and return what was written on the pod."""
        await self.service.bind(BindArguments(PodRef(f"uid-{name}", "default", name), "node-1"))
        self.cluster.tell(self.state)
        return self.cluster.pods["default", name].metadata.annotations

    def modes(self, state: VendorState | None = None) -> list[CardMode]:
        return [card.mode for card in (state or self.state).ledger.nodes["node-1"].cards.values()]


class TestFilter:
    def test_a_whole_request_goes_where_whole_cards_are_served_and_first_where_nothing_else_is(self) -> None:
        assert ask_filter(mixed_state(), pod_document("a", whole=1))["NodeNames"] == ["whole", "both"]

    def test_a_memory_request_goes_where_memory_is_served_and_first_where_nothing_else_is(self) -> None:
        assert ask_filter(mixed_state(), pod_document("a", 4))["NodeNames"] == ["memory", "both"]

    def test_nodes_that_could_never_hold_it_are_distinguished_from_those_where_pods_may_end(self) -> None:
        state = mixed_state()
        for name, node in (("x", "both"), ("y", "whole")):
            state.pod_applied(a_pod(name, node=node, whole=2, record=as_whole(0, 1)))
        answer = ask_filter(state, pod_document("a", whole=2))
        reason = ENFLAME.refused_whole_reason

        assert answer["NodeNames"] == []
        assert answer["FailedNodes"] == dict.fromkeys(["both", "memory", "whole", "stranger"], reason)
        assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(["memory", "stranger"], reason)

    def test_a_shared_card_is_no_whole_one_and_a_whole_one_has_no_memory_left(self) -> None:
        state = state_of(a_node("both", 16, 16, **BOTH))
        state.pod_applied(a_pod("shared", 1, node="both", record=on_card(0, 1)))
        assert ask_filter(state, pod_document("a", whole=2))["NodeNames"] == []
        assert ask_filter(state, pod_document("b", whole=1))["NodeNames"] == ["both"]

        state.pod_applied(a_pod("owner", node="both", whole=1, record=as_whole(1)))
        assert ask_filter(state, pod_document("c", 16))["NodeNames"] == []
        assert ask_filter(state, pod_document("d", 15))["NodeNames"] == ["both"]


class TestBind:
    async def test_the_record_names_the_cards_and_says_that_they_are_whole(self) -> None:
        rig = Rig(a_pod("shared", 4), a_pod("owner", whole=2))
        await rig.bind("shared")
        written = await rig.bind("owner")

        assert (written[ENFLAME.record.card_index], written[CARD_MODE]) == ("1,2", "whole")
        assert (written[ENFLAME.record.card_units], written[ENFLAME.record.pod_units]) == ("16", "32")
        assert rig.modes() == [CardMode.SHARED, CardMode.WHOLE, CardMode.WHOLE]


class TestOtherPlugins:
    """Another plugin may serve the resource: its pods are none of ours."""

    @given(st.permutations(["pod", "memory pod", "both", "memory", "lost"]))
    def test_what_waits_does_not_depend_on_the_order_of_what_was_seen(self, order: list[str]) -> None:
        state = state_of(a_node("gone", 16, **WHOLE))
        for what in order:
            match what:
                case "pod":
                    state.pod_applied(a_pod("owner", whole=1))
                case "memory pod":
                    state.pod_applied(a_pod("sharer", 4))
                case "both" | "memory":
                    state.node_applied(a_node(what, 16, **(BOTH if what == "both" else {})))
                case _:
                    state.node_deleted("gone")

        assert set(state.waiting) == {"uid-owner", "uid-sharer"}
        state.node_deleted("both")
        assert set(state.waiting) == {"uid-sharer"}

    def test_a_bound_pod_without_our_record_holds_no_card_of_ours(self) -> None:
        state = state_of(a_node("node-1", 16), vendor=ALIYUN)
        state.pod_applied(a_pod("theirs", whole=1, node="node-1", vendor=ALIYUN))

        assert state.bound == {}
        assert state.pod_problems == {}

    async def test_a_parked_pod_is_refused_with_what_would_help(self) -> None:
        state = state_of(a_node("memory", 16))
        pod = a_pod("owner", whole=1)
        state.pod_applied(pod)
        binds = BindService(state, Cluster(pod).client, AlwaysLeader())
        with pytest.raises(Refused, match="node memory serves no whole cards"):
            await binds.bind(BindArguments(PodRef("uid-owner", "default", "owner"), "memory"))

        document = await ExplainService(state).explain("default", "owner")
        assert (document.state, document.can_ever_fit) == ("waits", False)
        assert "no node serves whole cards here: another device plugin may" in document.summary
        assert "never" not in document.summary, "the pod may be theirs"

    async def test_a_node_that_none_of_us_serves_is_refused(self) -> None:
        state = state_of(a_node("both", 16, **BOTH))
        pod = a_pod("owner", whole=1)
        state.pod_applied(pod)

        with pytest.raises(Refused, match="node 'theirs' has no cards that the scheduler extender knows of"):
            await BindService(state, Cluster(pod).client, AlwaysLeader()).bind(
                BindArguments(PodRef("uid-owner", "default", "owner"), "theirs")
            )


def a_node_of_theirs(name: str = "theirs", **annotations: str) -> Node:
    """A node whose whole cards another plugin serves."""
    metadata = {"name": name, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "status": {"capacity": {ENFLAME.whole_card_resource: "8"}}}, Node)


class TestNodesOfAnotherPlugin:
    """kube-scheduler has found room there by the kubelet's own count before it asks."""

    async def test_a_pod_goes_there_without_a_record_if_ours_have_no_whole_card(self) -> None:
        state = state_of(a_node("both", 16, **BOTH), a_node("memory", 16), a_node_of_theirs())
        names = ["both", "memory", "theirs"]
        assert answer_of(state, pod_document("a", whole=1), names)["NodeNames"] == ["both"], "ours first"
        assert answer_of(state, pod_document("b", whole=2), names)["NodeNames"] == ["theirs"]
        cluster = Cluster(a_pod("b", whole=2))
        await BindService(state, cluster.client, AlwaysLeader()).bind(
            BindArguments(PodRef("uid-b", "default", "b"), "theirs")
        )
        assert cluster.pods["default", "b"].metadata.annotations == {}

    def test_memory_a_choice_of_cards_and_an_inventory_that_cannot_be_read_are_not_for_their_count(self) -> None:
        damaged = a_node_of_theirs("damaged", **{ENFLAME.inventory_annotation: "{"})
        state = state_of(a_node("memory", 16), a_node_of_theirs(), damaged)
        assert answer_of(state, pod_document("a", 17), ["memory", "theirs"])["NodeNames"] == []
        chosen = pod_document("b", whole=1, annotations={AVOID_CARDS: "0"})
        assert answer_of(state, chosen, ["theirs"])["NodeNames"] == []
        assert answer_of(state, pod_document("c", whole=1), ["damaged"])["NodeNames"] == []
        state.node_deleted("theirs")
        assert answer_of(state, pod_document("c", whole=1), ["theirs"])["NodeNames"] == []

    async def test_a_pod_that_waits_for_them_is_not_told_that_it_can_never_fit(self) -> None:
        state = state_of(a_node("memory", 16), a_node_of_theirs())
        state.pod_applied(a_pod("a", whole=4))
        document = await ExplainService(state).explain("default", "a")
        assert document.can_ever_fit
        assert "another plugin serves whole cards too" in document.summary
        assert "never" not in document.summary

    async def test_preemption_there_is_the_schedulers_own(self) -> None:
        state = state_of(a_node("memory", 16), a_node_of_theirs())
        victims = {"theirs": {"Pods": [{"UID": "x"}], "NumPDBViolations": 1}, "memory": {"Pods": [{"UID": "y"}]}}
        body = {"Pod": pod_document("a", whole=8), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        answer = json.loads((await Desk((state, None)).preempt(json.dumps(body).encode())).body)
        assert answer["NodeNameToMetaVictims"] == {"theirs": victims["theirs"]}


class TestAnswersForPeople:
    def test_whole_cards_of_different_size_count_as_they_are_everywhere(self) -> None:
        """A record of several whole cards names one size for all of them, the largest."""
        state = state_of(a_node("both", 16, 32, 32, **BOTH))
        state.pod_applied(a_pod("owner", node="both", whole=2, record=as_whole(0, 1, size=32)))
        node = state.ledger.nodes["both"]
        totals = ClusterTotals(state.ledger, state.changes).by_unit()["1"]
        document = json.loads(encode_node(ENFLAME, node))
        shown = msgspec.to_builtins(
            node_document(ENFLAME, node, NodeContext(NO_NODE_METADATA, "", {}, {}, frozenset()))
        )

        assert (node.used, node.total, node.largest_free, node.empty_cards) == (48, 80, 32, 1)
        assert (totals.granted, totals.total, totals.free, totals.largest_free) == (48, 80, 32, 32)
        assert [[pod["usedGCU"] for pod in device["pods"]] for device in document["devices"]] == [[16], [32], []]
        assert (document["usedGCU"], [device["usedGCU"] for device in document["devices"]]) == (48, [16, 32, 0])
        assert (shown["used"], [each.get("used", 0) for each in shown["cards"]]) == (48, [16, 32, 0])
        assert not node.is_unconfirmed, "the third card is not closed until the plugin has confirmed the pod"
        assert ask_filter(state, pod_document("a", whole=1))["NodeNames"] == ["both"]


def test_the_settings_decide_if_the_author_does_not() -> None:
    policies = replace(DEFAULT_POLICIES, whole_card="loose")
    asked = [
        read_scheduling_request(a_pod("a", whole=2, annotations=annotations), ENFLAME, policies)
        for annotations in ({}, {WHOLE_CARD_POLICY: "close"})
    ]

    assert [found.cards.whole_policy for found in asked if found is not None] == ["loose", "close"]
    shared = read_scheduling_request(a_pod("b", 4, annotations={WHOLE_CARD_POLICY: "loose"}), ENFLAME, policies)
    plain = read_scheduling_request(a_pod("c", 4), ENFLAME, policies)
    assert shared is not None
    assert plain is not None
    assert shared.shape == plain.shape
