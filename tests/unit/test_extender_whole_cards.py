"""Whole and shared cards, as the extender answers for them: one ledger, from filter to inspect."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from gcushare.core.card_state import CardMode
from gcushare.core.cards import BOTH_MODES, SERVES_WHOLE
from gcushare.core.errors import Refused
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.dashboard.feed_documents import NO_NODE_METADATA, NodeContext, node_document
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import AVOID_CARDS, CARD_MODE, WHOLE_CARD_POLICY
from gcushare.wire.documents.inspect import encode_node
from gcushare.wire.objects import Node
from tests.extender_objects import (
    DEFAULT_POLICIES,
    Document,
    a_node,
    a_pod,
    as_whole,
    pod_document,
    preempt_body,
    request_of,
    state_of,
)
from tests.unit.extender_binds import bind_once
from tests.unit.extender_desk import Desk, answer_of

WHOLE = {"modes": (SERVES_WHOLE,)}
BOTH = {"modes": BOTH_MODES}


def mixed_state() -> VendorState:
    """One node of each kind, two cards of 16 each."""
    return state_of(a_node("both", 16, 16, **BOTH), a_node("memory", 16, 16), a_node("whole", 16, 16, **WHOLE))


def named(state: VendorState, pod: Document, *names: str) -> list[str]:
    """The nodes that filter names; of those of ``mixed_state`` and another if none is given."""
    found: list[str] = answer_of(state, pod, *(names or ("both", "memory", "whole", "stranger")))["NodeNames"]
    return found


class TestFilter:
    def test_a_whole_request_goes_where_whole_cards_are_served_and_first_where_nothing_else_is(self) -> None:
        assert named(mixed_state(), pod_document("a", whole=1)) == ["whole", "both"]

    def test_a_memory_request_goes_where_memory_is_served_and_first_where_nothing_else_is(self) -> None:
        assert named(mixed_state(), pod_document("a", 4)) == ["memory", "both"]

    def test_nodes_that_could_never_hold_it_are_distinguished_from_those_where_pods_may_end(self) -> None:
        state = mixed_state()
        for name, node in (("x", "both"), ("y", "whole")):
            state.pod_applied(a_pod(name, node=node, whole=2, record=as_whole(0, 1)))
        answer = answer_of(state, pod_document("a", whole=2), "both", "memory", "whole", "stranger")
        reason = ENFLAME.refused_whole_reason

        assert answer["NodeNames"] == []
        assert answer["FailedNodes"] == dict.fromkeys(["both", "memory", "whole", "stranger"], reason)
        assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(["memory", "stranger"], reason)


async def test_the_record_names_the_cards_and_says_that_they_are_whole() -> None:
    state = state_of(a_node("node-1", 16, 16, 16, **BOTH))
    await bind_once(state, a_pod("shared", 4))
    written = (await bind_once(state, a_pod("owner", whole=2))).metadata.annotations

    assert (written[ENFLAME.record.card_index], written[CARD_MODE]) == ("1,2", "whole")
    assert (written[ENFLAME.record.card_units], written[ENFLAME.record.pod_units]) == ("16", "32")
    modes = [card.mode for card in state.ledger.nodes["node-1"].cards.values()]
    assert modes == [CardMode.SHARED, CardMode.WHOLE, CardMode.WHOLE]


class TestOtherPlugins:
    """Another plugin may serve the resource: its pods are none of ours."""

    def test_a_bound_pod_without_our_record_holds_no_card_of_ours(self) -> None:
        state = state_of(a_node("node-1", 16), vendor=ALIYUN)
        state.pod_applied(a_pod("theirs", whole=1, node="node-1", vendor=ALIYUN))

        assert state.bound == {}
        assert state.pod_problems == {}

    async def test_a_parked_pod_is_refused_with_what_would_help(self) -> None:
        state = state_of(a_node("memory", 16))
        with pytest.raises(Refused, match="node memory serves no whole cards"):
            await bind_once(state, a_pod("owner", whole=1), "memory")

        document = await ExplainService(state).explain("default", "owner")
        assert (document.state, document.can_ever_fit) == ("waits", False)
        assert "no node serves whole cards here: another device plugin may" in document.summary
        assert "never" not in document.summary, "the pod may be theirs"

    async def test_a_node_that_none_of_us_serves_is_refused(self) -> None:
        with pytest.raises(Refused, match="node 'theirs' has no cards that the scheduler extender knows of"):
            await bind_once(state_of(a_node("both", 16, **BOTH)), a_pod("owner", whole=1), "theirs")


def a_node_of_theirs(name: str = "theirs", **annotations: str) -> Node:
    """A node whose whole cards another plugin serves."""
    metadata = {"name": name, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "status": {"capacity": {ENFLAME.whole_card_resource: "8"}}}, Node)


class TestNodesOfAnotherPlugin:
    """kube-scheduler has found room there by the kubelet's own count before it asks."""

    async def test_a_pod_goes_there_without_a_record_if_ours_have_no_whole_card(self) -> None:
        state = state_of(a_node("both", 16, **BOTH), a_node("memory", 16), a_node_of_theirs())
        names = ("both", "memory", "theirs")
        assert named(state, pod_document("a", whole=1), *names) == ["both"], "ours first"
        assert named(state, pod_document("b", whole=2), *names) == ["theirs"]
        assert (await bind_once(state, a_pod("b", whole=2), "theirs")).metadata.annotations == {}

    def test_memory_a_choice_of_cards_and_an_inventory_that_cannot_be_read_are_not_for_their_count(self) -> None:
        damaged = a_node_of_theirs("damaged", **{ENFLAME.inventory_annotation: "{"})
        state = state_of(a_node("memory", 16), a_node_of_theirs(), damaged)
        assert named(state, pod_document("a", 17), "memory", "theirs") == []
        assert named(state, pod_document("b", whole=1, annotations={AVOID_CARDS: "0"}), "theirs") == []
        assert named(state, pod_document("c", whole=1), "damaged") == []
        state.node_deleted("theirs")
        assert named(state, pod_document("c", whole=1), "theirs") == []

    async def test_a_pod_that_waits_for_them_is_not_told_that_it_can_never_fit(self) -> None:
        state = state_of(a_node("memory", 16), a_node_of_theirs())
        state.pod_applied(a_pod("a", whole=4))
        document = await ExplainService(state).explain("default", "a")
        assert document.can_ever_fit
        assert "another plugin serves whole cards too" in document.summary
        assert "never" not in document.summary

    async def test_preemption_there_is_the_schedulers_own(self) -> None:
        state = state_of(a_node("memory", 16), a_node_of_theirs())
        body = preempt_body(pod_document("a", whole=8), {"theirs": ["x"], "memory": ["y"]}, violations=1)
        answer = json.loads((await Desk((state, None)).preempt(body)).body)
        assert answer["NodeNameToMetaVictims"] == {"theirs": {"Pods": [{"UID": "uid-x"}], "NumPDBViolations": 1}}


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
        assert named(state, pod_document("a", whole=1)) == ["both"]


def test_the_settings_decide_if_the_author_does_not() -> None:
    policies = replace(DEFAULT_POLICIES, whole_card="loose")
    for wish, expected in (({}, "loose"), ({WHOLE_CARD_POLICY: "close"}, "close")):
        assert request_of(a_pod("a", whole=2, annotations=wish), policies).cards.whole_policy == expected
    shared = request_of(a_pod("b", 4, annotations={WHOLE_CARD_POLICY: "loose"}), policies)
    assert shared.shape == request_of(a_pod("c", 4), policies).shape
