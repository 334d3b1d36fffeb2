"""What the page is sent of a node and of a waiting pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from gcushare.core.cards import BOTH_MODES, SERVES_CLAIMS, Health, InventoryCard
from gcushare.core.ledger import Ledger
from gcushare.core.node_rules import NodePlace, Taint
from gcushare.core.nodes import NodeState
from gcushare.scheduler_extender.dashboard.feed_documents import (
    NO_NODE_METADATA,
    NodeContext,
    NodeMetadata,
    PodMetadata,
    node_document,
    waiting_document,
)
from gcushare.vendors import ENFLAME
from tests.builders import GIB_UNIT, card, cards, held
from tests.extender_objects import a_pod, state_of

ALONE = NodeContext(NO_NODE_METADATA, "", {}, {}, frozenset())


def node_of(offered: Sequence[InventoryCard], *grants: tuple[int, int], modes: Sequence[str] = BOTH_MODES) -> NodeState:
    ledger = Ledger()
    ledger.set_node("n", offered, GIB_UNIT, modes)
    for name, grant in zip("abc", grants, strict=False):
        ledger.apply(held(name, "n", grant))
    return ledger.nodes["n"]


def written(node: NodeState, context: NodeContext = ALONE) -> Any:
    return msgspec.json.decode(msgspec.json.encode(node_document(ENFLAME, node, context)))


def test_a_node_says_what_its_cards_can_give_and_who_holds_them() -> None:
    document = written(node_of(cards(16, 16), (0, 6)))
    assert (document["total"], document["used"], document["largest"], document["emptyCards"]) == (32, 6, 16, 1)
    assert document["perGib"] == 1
    assert [(c["index"], c["total"], c.get("used", 0), c["free"]) for c in document["cards"]] == [
        (0, 16, 6, 10),
        (1, 16, 0, 16),
    ]
    assert document["pods"] == [{"uid": "uid-a", "ns": "default", "name": "a", "grants": [[0, 6, 0]]}]


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
        {"uid-a": PodMetadata(labels={"app": "x"}, corrected="1->0", owner="Job j", ending=True)},
        {"uid-a": "damaged"},
        frozenset({"uid-a"}),
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
    assert msgspec.to_builtins(document) == {
        "vendor": "enflame",
        "uid": "uid-p",
        "ns": "default",
        "name": "p",
        "created": "2026-01-01T00:00:00Z",
        "units": 12,
        "scheduler": "0/1 nodes are available",
    }


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
