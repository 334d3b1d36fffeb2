"""One pod's memory over several cards of a node (gcushare.io/cards), from the annotation to the count."""

from __future__ import annotations

import json

import pytest

from gcushare.core.errors import Refused
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.annotations import CARDS
from gcushare.wire.documents.explain_text import render_explanation
from gcushare.wire.documents.inspect import encode_node
from tests.extender_objects import a_node, a_pod, on_card, pod_document, state_of
from tests.unit.extender_binds import bind_once
from tests.unit.extender_desk import victims_of

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
