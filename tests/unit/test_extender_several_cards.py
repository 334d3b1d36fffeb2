"""Pods with several cards, with whole ones, or with none next to another pod; from the annotation to the count."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gcushare.core.assignments import ApartGroup
from gcushare.core.card_state import CardMode
from gcushare.core.cards import BOTH_MODES, SERVES_WHOLE
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.dashboard.feed_documents import NO_NODE_METADATA, NodeContext, node_document
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.filter import APART_REASON
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.annotations import APART, AVOID_CARDS, CARD_MODE, CARDS, RECORDED_APART, WHOLE_CARD_POLICY
from gcushare.wire.documents.explain_text import render_explanation
from gcushare.wire.documents.inspect import encode_node
from gcushare.wire.objects import Node, Pod, PodStatus
from gcushare.wire.pod_options import recorded_apart
from gcushare.wire.pods import pod_assignment, pod_request
from tests.builders import present
from tests.extender_objects import (
    DEFAULT_POLICIES,
    Document,
    a_node,
    a_pod,
    as_whole,
    on_card,
    pod_document,
    preempt_body,
    request_of,
    state_of,
)
from tests.unit.extender_binds import bind_once
from tests.unit.extender_desk import Desk, answer_of, victims_of

TWO = {CARDS: "2"}


def crowded(vendor: Vendor = ENFLAME) -> VendorState:
    """Three cards of 16 with 4, 10 and 16 free."""
    state = state_of(a_node("node-1", 16, 16, 16), vendor=vendor)
    for name, index, units in (("a", 0, 12), ("b", 1, 6)):
        state.pod_applied(a_pod(name, units, node="node-1", record=on_card(index, units)))
    return state


async def test_the_record_names_all_cards_and_every_reader_counts_the_same_shares() -> None:
    state = crowded()
    pod = a_pod("p", 20, annotations=TWO)
    bound = await bind_once(state, pod)
    written = bound.metadata.annotations
    fresh = crowded()
    fresh.pod_applied(bound)

    assert (written[ENFLAME.record.card_index], written[ENFLAME.record.pod_units]) == ("1,2", "20")
    for reported in (state, fresh):
        assert [card.used for card in reported.ledger.nodes["node-1"].cards.values()] == [12, 16, 10]
    devices = json.loads(encode_node(ENFLAME, state.ledger.nodes["node-1"]))["devices"]
    assert [pod["usedGCU"] for device in devices for pod in device["pods"] if pod["name"] == "p"] == [10, 10]


async def test_a_pod_that_finds_too_little_on_one_of_the_cards_is_refused_with_the_numbers() -> None:
    state = crowded()
    pod = a_pod("p", 24, annotations=TWO)
    with pytest.raises(Refused, match=r"needs 12 GB in each of 2 cards; best card free: 16 GB \(card 2 of node-1\)"):
        await bind_once(state, pod)
    text = render_explanation(await ExplainService(state).explain("default", "p"))

    assert "needs 12 GB in each of 2 cards" in text
    assert "it would fit on node-1 if these pods ended: default/b" in text


async def test_preemption_frees_as_many_cards_as_are_missing() -> None:
    preemptor = pod_document("p", 24, annotations=TWO, priority=1)
    assert await victims_of(crowded(), preemptor, {"node-1": ["a", "b"]}) == {"node-1": ["b"]}


def replica(name: str, value: str = "web", *, key: str = "app", units: int = 2, **options: Any) -> Pod:
    return a_pod(name, units, annotations={APART: key}, labels={"app": value}, **options)


async def bind(state: VendorState, pod: Pod) -> Pod:
    """Bind a pod to node-1, where the kubelet admits it."""
    bound = await bind_once(state, pod)
    admitted = msgspec.structs.replace(bound, status=PodStatus(start_time="2026-01-01T00:00:01Z"))
    state.pod_applied(admitted)
    return admitted


def cards_of(state: VendorState, *names: str) -> list[int]:
    held = [state.ledger.assignment(f"uid-{name}") for name in names]
    return [grant.index for each in held if each is not None for grant in each.grants]


async def test_replicas_never_share_a_card_and_the_one_too_many_waits_with_the_reason() -> None:
    state = state_of(a_node("node-1", 16, 16), a_node("node-2", 1))
    for name in ("a", "b"):
        await bind(state, replica(name))
    late = replica("c")
    with pytest.raises(Refused, match="other pods of app=web there: default/a, default/b"):
        await bind(state, late)
    document = pod_document("c", 2, annotations={APART: "app"}, labels={"app": "web"})
    answer = answer_of(state, document)
    text = render_explanation(await ExplainService(state).explain("default", "c"))

    assert cards_of(state, "a", "b") == [0, 1]
    assert answer["FailedNodes"]["node-1"] == APART_REASON
    assert answer["FailedNodes"]["node-2"] != APART_REASON
    assert "that holds no other pod of app=web (its gcushare.io/apart)" in text
    assert "would fit on node-1 if these pods ended: default/" in text


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replica("x", "another"), id="another value"),
        pytest.param(a_pod("x", 2, labels={"app": "web"}), id="one that does not ask"),
        pytest.param(replica("x", namespace="elsewhere"), id="another namespace"),
        pytest.param(
            a_pod("x", 2, annotations={APART: "tier"}, labels={"app": "web", "tier": "web"}), id="another label"
        ),
    ],
)
async def test_only_pods_of_one_namespace_that_both_ask_with_one_value_are_kept_apart(other: Pod) -> None:
    state = state_of(a_node("node-1", 16))
    await bind(state, replica("a"))
    await bind(state, other)
    assert cards_of(state, "a", "x") == [0, 0]


async def test_the_value_at_bind_counts_for_an_extender_that_starts_later() -> None:
    bound = await bind(state_of(a_node("node-1", 16)), replica("a"))
    assert bound.metadata.annotations[RECORDED_APART] == "app=web"
    later = state_of(a_node("node-1", 16))
    meta = msgspec.structs.replace(bound.metadata, labels={"app": "another"})
    later.pod_applied(msgspec.structs.replace(bound, metadata=meta))

    with pytest.raises(Refused):
        await bind(later, replica("b"))
    await bind(later, replica("c", "another"))
    groups = [ApartGroup("default", "app", value) for value in ("web", "another")]
    assert [each.apart for each in later.ledger.assignments()] == groups


def test_a_pod_bound_before_it_asked_is_not_kept_apart_and_one_bound_by_another_scheduler_is_by_its_labels() -> None:
    asked_later = replica("a", node="node-1", record=on_card(0, 2))
    by_another = replica("b", node="node-1")
    web = ApartGroup("default", "app", "web")

    assert recorded_apart(asked_later, ENFLAME) is None
    assert recorded_apart(by_another, ENFLAME) == web
    state = state_of(a_node("node-1", 16, 16))
    state.pod_applied(by_another)
    request = present(pod_request(replica("c"), ENFLAME))
    assert not state.ledger.nodes["node-1"].fits(request.cards), "its card is not known: it may be any"


@pytest.mark.parametrize(
    "key", ["", "a b", "-app", "app/", "/app", "x" * 64, "a" * 254 + "/b", "app=web", "äpp", "a/b/c"]
)
def test_what_is_no_key_of_a_label_is_refused_with_what_to_write(key: str) -> None:
    with pytest.raises(RemoteContractError, match="is not the key of a label; write that of one of the pod's labels"):
        pod_request(a_pod("p", annotations={APART: key}, labels={"app": "web"}), ENFLAME)


@pytest.mark.parametrize("key", ["app", "app.kubernetes.io/name", "a" * 253 + "/" + "b" * 63, "A_b.c-1"])
def test_keys_of_labels_are_taken_as_kubernetes_takes_them(key: str) -> None:
    request = present(pod_request(a_pod("p", annotations={APART: key}, labels={key: ""}), ENFLAME))
    assert request.cards.apart == ApartGroup("default", key, "")


def test_a_label_that_the_pod_lacks_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(Refused, match=r"names a label that the pod lacks \(its labels are app, tier\); add the label"):
        pod_request(a_pod("p", annotations={APART: "ap"}, labels={"tier": "x", "app": "web"}), ENFLAME)


def test_a_whole_card_is_shared_with_nobody_and_needs_no_group() -> None:
    request = pod_request(a_pod("p", None, whole=1, annotations={APART: "app"}, labels={"app": "web"}), ENFLAME)
    assert request is not None
    assert request.cards.apart is None


@pytest.mark.parametrize("text", ["app", "=web", "app=a=b", "app=-", "x" * 400 + "=y", ""])
def test_a_recorded_group_that_our_programs_did_not_write_counts_as_none(text: str) -> None:
    pod = a_pod("p", 2, node="node-1", record=on_card(0, 2), annotations={RECORDED_APART: text})
    assert present(pod_assignment(pod, ENFLAME)).apart is None


async def test_preemption_ends_the_replica_that_is_in_the_way_and_no_other_pod() -> None:
    state = state_of(a_node("node-1", 16))
    for pod in (replica("a"), a_pod("free", 2)):
        await bind(state, pod)
    document = pod_document("c", 2, annotations={APART: "app"}, labels={"app": "web"}, priority=1)
    assert await victims_of(state, document, {"node-1": ["a", "free"]}) == {"node-1": ["a"]}


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
