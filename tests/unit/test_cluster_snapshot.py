"""Objects of the API server and documents of the extender become one snapshot, over the ledger that all views share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gcushare.cli.kubectl.summary import summarise
from gcushare.cluster.extender import adopt_document
from gcushare.cluster.reader import asking_texts, may_ask
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.cluster.watch_handlers import ClaimHandler, NodeHandler, PodHandler
from gcushare.core.assignments import Assignment
from gcushare.core.cards import InventoryCard
from gcushare.core.ledger import Ledger
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.annotations import PodRecord
from gcushare.wire.documents.inspect import CLOSING, OPENING, NodePart, decode_document, encode_node
from tests.builders import card, cards, held
from tests.cluster_streams import STREAMS, Event, Server, Step, feed
from tests.extender_objects import a_node, a_pod, on_card, pod_document, state_of


def seen(vendor: Vendor = ENFLAME) -> ClusterSnapshot:
    snapshot = ClusterSnapshot(vendor)
    snapshot.node_applied(a_node("node-1", 16, 16, vendor=vendor))
    return snapshot


def document_of(
    *assignments: Assignment, vendor: Vendor = ENFLAME, offered: Sequence[InventoryCard] = ()
) -> list[NodePart]:
    """What the extender says of node-1, which has two cards of 16."""
    ledger = Ledger()
    ledger.set_node("node-1", offered or cards(16, 16), None)
    for assignment in assignments:
        ledger.apply(assignment)
    return decode_document(OPENING + encode_node(vendor, ledger.nodes["node-1"]) + CLOSING)


def figures(snapshot: ClusterSnapshot) -> dict[tuple[str, int], tuple[int, int]]:
    nodes = snapshot.ledger.nodes
    return {(name, i): (s.held, s.total) for name, node in nodes.items() for i, s in node.cards.items()}


def test_a_bound_pod_whose_record_cannot_be_read_holds_nothing_and_is_kept_with_its_problem() -> None:
    snapshot = seen()
    key = ENFLAME.record.card_index
    snapshot.pod_applied(a_pod("broken", 4, node="node-1", annotations={key: "one"}, phase="Running"))
    assert "is not a whole number" in snapshot.pods["uid-broken"].problem
    assert snapshot.without_card() == {}, "it waits for nothing: it has something, and no one can tell what"
    assert [(facts.ref.name, facts.units) for facts in snapshot.unplaced()["node-1"]] == [("broken", 4)]
    assert figures(snapshot)["node-1", 0] == (0, 16)


def test_a_pod_whose_request_cannot_be_read_either_is_reported_without_an_amount() -> None:
    snapshot = seen()
    snapshot.pod_applied(a_pod("broken", "many", node="node-1", phase="Running"))
    assert [(facts.ref.name, facts.units) for facts in snapshot.unplaced()["node-1"]] == [("broken", 0)]
    snapshot.pod_applied(a_pod("broken", 4, node="node-1", record=on_card(1, 4), phase="Running"))
    assert snapshot.unplaced() == {}
    assert figures(snapshot)["node-1", 1] == (4, 16)


@pytest.mark.parametrize("vendor", [ENFLAME, ALIYUN], ids=lambda vendor: vendor.name)
def test_a_pod_whose_cards_are_unknown_is_known_from_the_extenders_document_alone(vendor: Vendor) -> None:
    """For a reader without the right to read pods."""
    snapshot = seen(vendor)
    adopt_document(snapshot, document_of(held("a", "node-1", (0, 4)), held("broken", "node-1"), vendor=vendor))
    assert [str(facts.ref) for facts in snapshot.unplaced()["node-1"]] == ["default/broken"]
    assert summarise(snapshot).nodes[0].unplaced_pods[0].node == "node-1"


def test_a_pod_nominated_for_a_node_is_pending_there_and_waits() -> None:
    snapshot = seen()
    document = pod_document("next", 6)
    document["status"]["nominatedNodeName"] = "node-1"
    snapshot.pod_applied(msgspec.convert(document, type(a_pod("x"))))
    assert [facts.units for facts in snapshot.without_card()["node-1"]] == [6]
    assert [facts.ref.name for facts in snapshot.waiting()] == ["next"]


def test_a_node_that_cannot_be_read_is_kept_with_its_problem_and_one_without_cards_is_not() -> None:
    snapshot = ClusterSnapshot(ENFLAME)
    snapshot.node_applied(a_node("bad", 16, annotations={ENFLAME.inventory_annotation: "{"}))
    snapshot.node_applied(a_node("other", 16, vendor=ALIYUN))
    assert "cannot be read" in snapshot.node_facts["bad"].problem
    assert set(snapshot.node_facts) == {"bad"}
    assert snapshot.nodes_with_cards() == []


@pytest.mark.parametrize("vendor", [ENFLAME, ALIYUN], ids=lambda vendor: vendor.name)
def test_the_extenders_own_document_gives_its_ledger_back(vendor: Vendor) -> None:
    holding = held("a", "node-1", (0, 4), (1, 2)), held("b", "node-1", (0, 5)), held("c", "node-1", (7, 1))
    snapshot = seen(vendor)
    adopt_document(snapshot, document_of(*holding, vendor=vendor, offered=[card(0), card(1, sick=True)]))
    assert figures(snapshot) == {("node-1", 0): (9, 16), ("node-1", 1): (2, 16), ("node-1", 7): (1, 0)}
    state = snapshot.ledger.nodes["node-1"]
    assert [c.card.is_usable for c in state.cards.values() if c.card is not None] == [True, False]
    assert state.unit is not None
    assert state.unit.name == "1"
    assert {str(each.pod) for each in state.assignments.values()} == {"default/a", "default/b", "default/c"}


@pytest.mark.parametrize("vendor", [ENFLAME, ALIYUN], ids=lambda vendor: vendor.name)
@pytest.mark.parametrize(
    ("units", "record", "is_damaged", "free"),
    [
        pytest.param(20, replace(on_card(0, 20, size=32), assigned=True), False, (0, 16), id="a card that shrank"),
        pytest.param(20, on_card(0, 20, size=32), False, (0, 0), id="a card that shrank, unconfirmed"),
        pytest.param(8, None, True, (8, 8), id="a damaged record"),
        pytest.param(8, None, False, (8, 8), id="no record yet"),
    ],
)
def test_either_source_says_the_same_of_free_room(
    vendor: Vendor, units: int, record: PodRecord | None, is_damaged: bool, free: tuple[int, int]
) -> None:
    node = a_node("node-1", 16, 16, vendor=vendor)
    broken = {vendor.record.card_index: "x"} if is_damaged else {}
    pod = a_pod("a", units, vendor=vendor, node="node-1", record=record, annotations=broken, phase="Running")
    counted, adopted = ClusterSnapshot(vendor), ClusterSnapshot(vendor)
    counted.count([node], [pod])
    adopted.count([node], [pod])
    body = OPENING + encode_node(vendor, counted.ledger.nodes["node-1"]) + CLOSING
    adopt_document(adopted, decode_document(body))
    for snapshot in (counted, adopted):
        state = snapshot.ledger.nodes["node-1"]
        assert tuple(each.grantable for each in state.cards.values()) == free, snapshot.source
        assert state.largest_free == max(free)
        assert summarise(snapshot).nodes[0].free == sum(free)


def test_a_document_of_the_go_extender_is_read_with_its_nulls() -> None:
    body = {
        "nodes": [
            {"name": "node-1", "totalGPU": 32, "usedGPU": 4, "devs": [
                {"id": 0, "totalGPU": 16, "usedGPU": 4, "pods": [{"name": "a", "namespace": "default", "usedGPU": 4}]},
                {"id": 1, "totalGPU": 16, "usedGPU": 0, "pods": None},
            ]}
        ]
    }  # fmt: skip
    snapshot = seen(ALIYUN)
    adopt_document(snapshot, decode_document(json.dumps(body).encode()))
    assert summarise(snapshot).percent == 12


def test_a_node_that_the_extender_does_not_show_is_left_out_and_reported() -> None:
    snapshot = seen()
    snapshot.node_applied(a_node("new", 16))
    adopt_document(snapshot, document_of())
    assert [node.name for node in summarise(snapshot).nodes] == ["node-1"]
    assert snapshot.problems == ["node new is not known to the scheduler extender (yet?): left out"]


def test_a_pod_that_the_extender_is_binding_waits_no_more() -> None:
    snapshot = seen()
    snapshot.pod_applied(a_pod("a", 4))
    assert [facts.ref.name for facts in snapshot.waiting()] == ["a"]
    adopt_document(snapshot, document_of(held("a", "node-1", (0, 4))))
    assert snapshot.waiting() == []


def test_the_search_before_decoding_misses_no_pod_that_asks() -> None:
    texts = asking_texts(ENFLAME)
    asking = json.dumps(pod_document("a", 4)).encode()
    assert may_ask(msgspec.Raw(asking), texts)
    assert may_ask(msgspec.Raw(asking.replace(b"/", b"\\/")), texts), "JSON may escape a slash"
    assert not may_ask(msgspec.Raw(json.dumps(pod_document("a", None)).encode()), texts)


def extender_of(events: list[Event]) -> VendorState:
    state = state_of()
    feed({"nodes": NodeHandler([state]), "pods": PodHandler([state]), "claims": ClaimHandler([state])}, events)
    return state


def commands_of(events: list[Event]) -> ClusterSnapshot:
    snapshot = ClusterSnapshot(ENFLAME)
    feed({"nodes": NodeHandler([snapshot]), "pods": PodHandler([snapshot]), "claims": ClaimHandler([snapshot])}, events)
    return snapshot


def held_by_pod(ledger: Ledger) -> dict[str, object]:
    return {each.pod.uid: (each.node, each.grants, each.unplaced, each.assigned) for each in ledger.assignments()}


def card_states(ledger: Ledger) -> dict[tuple[str, int], object]:
    return {
        (name, index): (card.used, card.whole, card.total, card.grantable, card.as_memory.is_open)
        for name, node in ledger.nodes.items()
        for index, card in node.cards.items()
    }


@settings(max_examples=100, deadline=None)
@given(STREAMS, st.permutations(("nodes", "pods", "claims")))
@example([("pod", "a", 0, 0), ("delete", "a", 0, 0)], ["nodes", "pods", "claims"])
def test_any_stream_leaves_what_a_first_list_has_in_any_order(stream: list[Step], order: list[str]) -> None:
    """The extender and the commands count alike, however they came to know the objects."""
    server = Server()
    events = server.run(stream)
    listed = [Event(kind, each) for kind in order for each in server.objects(kind)]
    extender, commands, fresh = extender_of(events), commands_of(events), commands_of(listed)
    for view in (extender, commands):
        assert held_by_pod(view.ledger) == held_by_pod(fresh.ledger)
        assert card_states(view.ledger) == card_states(fresh.ledger)
        assert view.nodes.problems == fresh.nodes.problems
        assert view.pod_problems == fresh.pod_problems
    assert commands.pods == fresh.pods
    assert commands.node_facts == fresh.node_facts
    waiting = (*extender.waiting.values(), *extender.claiming.values(), *extender.unserved.values())
    unheld = {uid for uid, facts in fresh.pods.items() if facts.is_waiting and fresh.ledger.assignment(uid) is None}
    assert {each.pod.uid for each in waiting} == unheld
