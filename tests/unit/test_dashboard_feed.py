"""What the page is sent: documents of nodes and waiting pods, a snapshot, then what changed since a mark."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gcushare.cluster.watch_handlers import ClaimHandler, NodeHandler, PodHandler
from gcushare.core.cards import SERVES_CLAIMS, Health
from gcushare.core.change_log import MAX_LOGGED_CHANGES
from gcushare.core.node_rules import NodePlace, Taint
from gcushare.core.nodes import NodeState
from gcushare.scheduler_extender.cooperative_yield import PIECE_BYTES
from gcushare.scheduler_extender.dashboard.feed import Feed, FeedPosition, parse_mark
from gcushare.scheduler_extender.dashboard.feed_documents import (
    NO_NODE_METADATA,
    NodeContext,
    NodeMetadata,
    PodMetadata,
    ReplicaDocument,
    waiting_document,
)
from gcushare.scheduler_extender.dashboard.feed_documents import node_document as page_document
from gcushare.scheduler_extender.dashboard.metadata_cache import MetadataCache
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CORRECTED
from gcushare.wire.objects import Node, Pod
from tests.builders import card, cards, node_of, present
from tests.cluster_streams import STREAMS, Server, Step, feed
from tests.extender_objects import a_node, a_pod, node_document, on_card, pod_document, state_of

ALONE = NodeContext(NO_NODE_METADATA, "", {}, {}, frozenset())


def written(node: NodeState, context: NodeContext = ALONE) -> Any:
    return msgspec.json.decode(msgspec.json.encode(page_document(ENFLAME, node, context)))


def test_a_node_says_what_its_cards_can_give_and_who_holds_them() -> None:
    document = written(node_of(cards(16, 16), (0, 6)))
    assert (document["total"], document["used"], document["largest"], document["emptyCards"]) == (32, 6, 16, 1)
    assert document["perGib"] == 1
    figures = [(c["index"], c["total"], c.get("used", 0), c["free"]) for c in document["cards"]]
    assert figures == [(0, 16, 6, 10), (1, 16, 0, 16)]
    assert document["pods"] == [{"uid": "uid-node-1-0", "ns": "default", "name": "node-1-0", "grants": [[0, 6, 0]]}]


def test_what_only_claims_may_give_is_free_all_the_same() -> None:
    document = written(node_of([card(0), card(1), card(2, sick=True)], (0, 6), modes=(SERVES_CLAIMS,)))
    assert (document["largest"], document["emptyCards"]) == (16, 1)
    assert [(c.get("free", 0), c.get("wholeFree", False)) for c in document["cards"]] == [
        (10, False), (16, True), (0, False)
    ]  # fmt: skip


def test_free_memory_of_a_sick_or_cordoned_card_is_offered_to_no_one() -> None:
    sick = msgspec.structs.replace(card(0), health=Health.UNHEALTHY, reason="XID 79")
    first, second, third = written(node_of([sick, card(1, cordoned=True), card(2)]))["cards"]
    assert (first["sick"], first["reason"], first.get("free", 0)) == (True, "XID 79", 0)
    assert (second["cordoned"], second.get("free", 0)) == (True, 0)
    assert third["free"] == 16


@pytest.mark.parametrize(
    ("modes", "serves", "free", "whole_free"),
    [
        pytest.param(("memory",), None, 16, None, id="memory"),
        pytest.param(("whole",), "whole", None, True, id="whole cards"),
        pytest.param(("memory", "whole"), "both", 16, True, id="both"),
    ],
)
def test_a_free_card_is_offered_as_what_the_node_serves(
    modes: tuple[str, ...], serves: str | None, free: int | None, whole_free: bool | None
) -> None:
    document = written(node_of(cards(16), modes=modes))
    (first,) = document["cards"]
    assert (document.get("serves"), first.get("free"), first.get("wholeFree")) == (serves, free, whole_free)


def test_what_is_known_in_addition_to_the_ledger_is_added() -> None:
    context = NodeContext(
        NodeMetadata(NodePlace("n", {"zone": "a"}), unready=True, address="10.0.0.1"),
        "the inventory cannot be read",
        {"uid-node-1-0": PodMetadata(labels={"app": "x"}, corrected="1->0", owner="Job j", ending=True)},
        {"uid-node-1-0": "damaged"},
        frozenset({"uid-node-1-0"}),
    )

    document = written(node_of(cards(16), (0, 4)), context)
    assert (document["labels"], document["unready"], document["address"]) == ({"zone": "a"}, True, "10.0.0.1")
    assert document["problem"] == "the inventory cannot be read"
    (pod,) = document["pods"]
    assert (pod["corrected"], pod["owner"], pod["problem"]) == ("1->0", "Job j", "damaged")
    assert pod["reserved"]
    assert pod["ending"]
    assert pod["labels"] == {"app": "x"}


def test_a_waiting_pod_says_what_it_asks_for() -> None:
    state = state_of()
    state.pod_applied(a_pod("p", 12))

    document = waiting_document(ENFLAME, state.waiting["uid-p"], PodMetadata(scheduler="0/1 nodes are available"))
    names = {"vendor": "enflame", "uid": "uid-p", "ns": "default", "name": "p"}
    asked = {"created": "2026-01-01T00:00:00Z", "units": 12, "scheduler": "0/1 nodes are available"}
    assert msgspec.to_builtins(document) == names | asked


@pytest.mark.parametrize(
    ("metadata", "free"),
    [
        (NodeMetadata(NodePlace("n", is_cordoned=True)), None),
        (NodeMetadata(unready=True), None),
        (NodeMetadata(NodePlace("n", taints=(Taint("gpu", "", "NoSchedule"),))), 16),
    ],
    ids=["cordoned", "not ready", "tainted"],
)
def test_a_node_that_takes_no_pods_has_nothing_free(metadata: NodeMetadata, free: int | None) -> None:
    document = written(node_of(cards(16)), NodeContext(metadata, "", {}, {}, frozenset()))
    assert (document.get("largest"), document["cards"][0].get("free")) == (free, free)
    assert document.get("taints", []) == [str(taint) for taint in metadata.place.taints]


REPLICA = ReplicaDocument(True, "me", 0.5, 1)


class Watched:
    """A feed behind the sinks that the watches feed."""

    def __init__(self, *states: VendorState) -> None:
        self.states = states or (state_of(),)
        self.feed = Feed(self.states)
        observers: list[VendorState | MetadataCache] = [*self.states, self.feed.metadata]
        self.nodes = NodeHandler(observers)
        self.pods = PodHandler(observers)
        self.claims = ClaimHandler(self.states)

    def see(self, *objects: Node | Pod) -> None:
        for each in objects:
            if isinstance(each, Node):
                self.nodes.applied(each)
            else:
                self.pods.applied(each)

    async def snapshot(self) -> Any:
        return msgspec.json.decode(b"".join([piece async for piece in self.feed.snapshot(REPLICA)]))

    def news(self, mark: FeedPosition) -> dict[str, list[Any]]:
        """All changes since a mark, joined."""
        pieces = present(self.feed.changes(mark))
        joined: dict[str, list[Any]] = {}
        for piece in pieces:
            for field, found in msgspec.json.decode(piece).items():
                joined.setdefault(field, []).extend(found)
        return joined


async def test_the_snapshot_has_every_node_by_name_and_every_waiting_pod() -> None:
    watched = Watched()
    watched.see(a_node("b", 16), a_node("a", 16), a_pod("w", 4), a_pod("x", 4, node="a", record=on_card(0, 4)))

    document = await watched.snapshot()
    assert [node["name"] for node in document["nodes"]] == ["a", "b"]
    assert [pod["name"] for pod in document["waiting"]] == ["w"]
    assert document["vendors"] == [
        {"name": "enflame", "word": "GCU", "label": "enflame.com/gcushare=true", "inspect": "gcushare"}
    ]
    assert document["replica"] == {"leads": True, "holder": "me", "ageS": 0.5, "nowMs": 1}


@given(STREAMS, st.lists(st.integers(1, 9), min_size=1, max_size=12))
@example([("pod", "a", 8, 0), ("lose", "claims", 0, 0), ("claim", "x", 0, 0)], [1])
def test_a_reader_that_follows_the_changes_sees_what_a_new_reader_is_shown(
    stream: list[Step], pauses: list[int]
) -> None:
    """After each pause the reader asks for what changed since it last asked."""
    watched, shown, mark = Watched(), dict[str, Any](), None
    events, turns = Server().run(stream), itertools.cycle(pauses)
    while True:
        news = watched.news(mark) if mark is not None else asyncio.run(watched.snapshot())
        mark = watched.feed.mark
        shown |= {f"{each['vendor']}/{each['name']}": each for each in news.get("nodes", ())}
        shown |= {each["uid"]: each for each in news.get("waiting", ())}
        for key in (*news.get("gone", ()), *news.get("left", ())):
            shown.pop(key, None)
        if not events:
            break
        for event in [events.pop(0) for _ in range(min(next(turns), len(events)))]:
            feed({"nodes": watched.nodes, "pods": watched.pods, "claims": watched.claims}, [event])
    fresh = asyncio.run(watched.snapshot())
    assert [each for key, each in sorted(shown.items()) if "/" in key] == fresh["nodes"]
    assert {key for key in shown if "/" not in key} == {each["uid"] for each in fresh["waiting"]}
    assert all(shown[each["uid"]] == each for each in fresh["waiting"])


async def test_a_large_snapshot_and_many_changes_come_in_pieces_and_all_of_them() -> None:
    watched = Watched()
    mark = watched.feed.mark
    watched.see(*(a_node(f"n-{number}", *[16] * 8) for number in range(200)))

    pieces = [piece async for piece in watched.feed.snapshot(REPLICA)]
    assert len(pieces) > 1
    assert max(map(len, pieces)) < PIECE_BYTES + 8192
    assert len(msgspec.json.decode(b"".join(pieces))["nodes"]) == 200
    assert len(list(watched.feed.changes(mark) or ())) > 1
    assert len(watched.news(mark)["nodes"]) == 200


def test_a_node_that_changed_ten_times_is_reported_once_and_no_other() -> None:
    watched = Watched()
    watched.see(a_node("a", 16), a_node("b", 64))
    mark = watched.feed.mark
    watched.see(*(a_pod(f"x{number}", 4, node="b", record=on_card(0, 4)) for number in range(10)))

    news = watched.news(mark)
    assert [(node["name"], node["used"]) for node in news["nodes"]] == [("b", 40)]
    assert news.keys() == {"nodes"}


def test_a_status_update_of_a_waiting_pod_that_changes_nothing_is_no_news() -> None:
    watched = Watched()
    watched.see(a_pod("x", 4))
    mark = watched.feed.mark
    watched.see(a_pod("x", 4))

    assert watched.news(mark) == {}


def test_a_confirmed_reservation_is_reported_although_no_figure_changes() -> None:
    watched = Watched()
    (state,) = watched.states
    watched.see(a_node("a", 16), a_pod("x", 4))
    asking = state.waiting["uid-x"]
    assert isinstance(asking, SchedulingRequest)
    reserved = state.ledger.reserve(asking.pod, "a", asking.cards, state.preferences.rank_cards(asking, None))
    state.ledger.stamp("uid-x", 1)
    mark = watched.feed.mark
    assert reserved.node == "a"
    watched.see(a_pod("x", 4, node="a", record=on_card(0, 4)))

    (node,) = watched.news(mark)["nodes"]
    assert not node["pods"][0].get("reserved", False)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"labels": {"team": "b"}}, id="another label"),
        pytest.param({"annotations": {CORRECTED: "1->0"}}, id="a correction"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, id="a deletion under way"),
    ],
)
def test_a_pod_that_holds_the_same_but_looks_different_is_reported(changed: dict[str, Any]) -> None:
    watched = Watched()
    watched.see(a_node("a", 16), a_pod("x", 4, node="a", record=on_card(0, 4), labels={"team": "a"}))
    mark = watched.feed.mark
    document = pod_document("x", 4, node="a", record=on_card(0, 4))
    document["metadata"]["annotations"].update(changed.pop("annotations", {}))
    document["metadata"].update(changed)
    watched.see(msgspec.convert(document, Pod))

    assert [node["name"] for node in watched.news(mark)["nodes"]] == ["a"]


def test_a_node_that_becomes_unready_is_reported() -> None:
    watched = Watched()
    document = node_document("a", 16)
    document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    watched.see(msgspec.convert(document, Node))
    mark = watched.feed.mark
    document["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    watched.see(msgspec.convert(document, Node))

    assert watched.news(mark)["nodes"][0]["unready"]


def test_a_node_without_cards_leaves_no_trace() -> None:
    watched = Watched()
    bare = {"metadata": {"name": "cpu", "uid": "u", "labels": {"a": "b"}}, "status": {}}
    watched.see(msgspec.convert(bare, Node))

    assert watched.feed.metadata.nodes == {}
    assert watched.feed.mark.position == 0


def test_labels_that_controllers_write_for_themselves_are_left_out() -> None:
    watched = Watched()
    labels = {"app": "x", "pod-template-hash": "abc", "controller-uid": "u"}
    watched.see(a_node("a", 16), a_pod("x", 4, node="a", record=on_card(0, 4), labels=labels))

    assert watched.feed.metadata.pods["uid-x"].labels == {"app": "x"}


# As many changes as are stored.
@pytest.mark.slow
def test_a_mark_of_another_process_or_of_long_ago_does_not_count() -> None:
    watched = Watched()
    watched.see(a_node("a", 16))
    mark = watched.feed.mark

    assert watched.feed.changes(FeedPosition("00000000", 0)) is None
    assert watched.feed.changes(FeedPosition(mark.epoch, mark.position + 1)) is None
    two_states = [a_pod("x", units, node="a", record=on_card(0, units)) for units in (4, 5)]
    for number in range(MAX_LOGGED_CHANGES):
        watched.see(two_states[number % 2])
    assert watched.feed.changes(mark) is None


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "0123456g.4", "01234567.-1", "01234567." + "9" * 40])
def test_a_mark_is_read_as_it_was_written_and_other_text_is_none(text: str) -> None:
    mark = Watched().feed.mark

    assert parse_mark(str(mark)) == mark
    assert parse_mark(text) is None


async def test_the_words_of_the_scheduler_come_with_the_waiting_pod() -> None:
    watched = Watched()
    document = pod_document("x", 4)
    document["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes " * 200}]
    watched.see(msgspec.convert(document, Pod))

    (reported,) = (await watched.snapshot())["waiting"]
    assert reported["scheduler"].startswith("0/3 nodes")
    assert len(reported["scheduler"]) == 600


async def test_a_pod_whose_record_is_damaged_says_so() -> None:
    watched = Watched()
    watched.see(a_node("a", 16), a_pod("x", 4, node="a", annotations={ENFLAME.record.card_index: "zero"}))

    (node,) = (await watched.snapshot())["nodes"]
    assert "zero" in node["pods"][0]["problem"]
