"""The cards of a status, of this and of newer plugins."""

from __future__ import annotations

import json

import msgspec

from gcushare.cluster.card_drawing.node_view import HolderState, view_status
from gcushare.core.card_state import CardMode
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS
from tests.unit.card_views import NO_OWNERS, card, pod, status, use


def test_a_newer_plugins_fields_are_no_obstacle_and_an_unknown_mode_is_derived() -> None:
    document = json.loads(msgspec.json.encode(status(card(0, mode="of the future"), pods=(pod("d/a", {0: 4}),))))
    document["later"] = {"more": True}
    view = view_status(PLUGIN_STATUS.read(json.dumps(document).encode()), "new", NO_OWNERS)
    assert view.cards[0].mode is CardMode.SHARED


def test_how_far_a_pod_is_decides_what_counts_as_granted() -> None:
    pods = (
        pod("d/holds", {0: 4}),
        pod("d/unconfirmed", {0: 3}, unconfirmed=("main",)),
        pod("d/waits", units=5, cards=(0,), recorded_cards=(0,)),
    )
    found = view_status(status(card(0), pods=pods), "x", NO_OWNERS).cards[0]
    assert [(holder.state, holder.units) for holder in found.holders] == [
        (HolderState.HOLDS, 4),
        (HolderState.UNCONFIRMED, 3),
        (HolderState.WAITS, 5),
    ]
    assert found.granted_units == 7


def test_what_the_plugin_says_of_a_pods_use_counts_before_what_is_found_here() -> None:
    pods = (
        pod("d/a", {0: 4}, used_by_card={0: 5 << 30}),
        pod("d/b", {0: 2}, used_by_card={0: 0}),
        pod("d/c", {1: 2}, used_by_card={0: 7, 1: 0}),
        pod("d/old", {0: 2}),
    )
    cards = status(card(0, use=use(6, processes={4: 9, 5: 3})), card(1), pods=pods)
    first = view_status(cards, "x", {4: "uid-of-a", 5: "uid-of-old"}).cards[0]
    assert [(holder.pod, holder.units, holder.used_bytes) for holder in first.holders] == [
        ("d/a", 4, 5 << 30),
        ("d/b", 2, 0),
        ("d/c", 0, 7),  # uses a card that it does not hold
        ("d/old", 2, 3),
    ]
    assert first.granted_units == 8
