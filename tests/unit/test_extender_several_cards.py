"""What a pod says of its cards: over several of them, or none with another pod; from the annotation to the count."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gcushare.core.assignments import ApartGroup
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.filter import APART_REASON
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.annotations import APART, CARDS, RECORDED_APART
from gcushare.wire.documents.explain_text import render_explanation
from gcushare.wire.documents.inspect import encode_node
from gcushare.wire.objects import Pod, PodStatus
from gcushare.wire.pod_options import recorded_apart
from gcushare.wire.pods import pod_assignment, pod_request
from tests.extender_objects import a_node, a_pod, on_card, pod_document, state_of
from tests.unit.extender_binds import bind_once
from tests.unit.extender_desk import answer_of, victims_of

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
    state = state_of(a_node("node-1", 16))
    bound = await bind(state, replica("a"))
    assert bound.metadata.annotations[RECORDED_APART] == "app=web"
    later = state_of(a_node("node-1", 16))
    meta = msgspec.structs.replace(bound.metadata, labels={"app": "another"})
    later.pod_applied(msgspec.structs.replace(bound, metadata=meta))

    with pytest.raises(Refused):
        await bind(later, replica("b"))
    await bind(later, replica("c", "another"))
    assert [each.apart for each in later.ledger.assignments()] == [
        ApartGroup("default", "app", "web"),
        ApartGroup("default", "app", "another"),
    ]


def test_a_pod_bound_before_it_asked_is_not_kept_apart_and_one_bound_by_another_scheduler_is_by_its_labels() -> None:
    asked_later = replica("a", node="node-1", record=on_card(0, 2))
    by_another = replica("b", node="node-1")
    web = ApartGroup("default", "app", "web")

    assert recorded_apart(asked_later, ENFLAME) is None
    assert recorded_apart(by_another, ENFLAME) == web
    state = state_of(a_node("node-1", 16, 16))
    state.pod_applied(by_another)
    request = pod_request(replica("c"), ENFLAME)
    assert request is not None
    assert not state.ledger.nodes["node-1"].fits(request.cards), "its card is not known: it may be any"


@pytest.mark.parametrize(
    "key", ["", "a b", "-app", "app/", "/app", "x" * 64, "a" * 254 + "/b", "app=web", "äpp", "a/b/c"]
)
def test_what_is_no_key_of_a_label_is_refused_with_what_to_write(key: str) -> None:
    with pytest.raises(RemoteContractError, match="is not the key of a label; write that of one of the pod's labels"):
        pod_request(a_pod("p", annotations={APART: key}, labels={"app": "web"}), ENFLAME)


@pytest.mark.parametrize("key", ["app", "app.kubernetes.io/name", "a" * 253 + "/" + "b" * 63, "A_b.c-1"])
def test_keys_of_labels_are_taken_as_kubernetes_takes_them(key: str) -> None:
    request = pod_request(a_pod("p", annotations={APART: key}, labels={key: ""}), ENFLAME)
    assert request is not None
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
    found = pod_assignment(pod, ENFLAME)
    assert found is not None
    assert found.apart is None


async def test_preemption_ends_the_replica_that_is_in_the_way_and_no_other_pod() -> None:
    state = state_of(a_node("node-1", 16))
    for pod in (replica("a"), a_pod("free", 2)):
        await bind(state, pod)
    document = pod_document("c", 2, annotations={APART: "app"}, labels={"app": "web"}, priority=1)
    assert await victims_of(state, document, {"node-1": ["a", "free"]}) == {"node-1": ["a"]}
