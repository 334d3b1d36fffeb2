"""Each waiting pod is counted for one reason."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.explain.pending_reasons import (
    MAX_SEARCHED_SETS,
    MAX_SEARCHED_SHAPES,
    PendingReason,
    count_pending,
)
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.annotations import CARDS, USE_CARDS
from gcushare.wire.objects import Pod
from tests.extender_objects import a_node, a_pod, on_card, pod_document, state_of

BOTH = (SERVES_MEMORY, SERVES_WHOLE)
DOCUMENT = pod_document("p", 6)


def reasons(state: VendorState) -> dict[PendingReason, int]:
    """The reasons that anybody waits for."""
    totals = ClusterTotals(state.ledger, state.changes)
    return {reason: pods for reason, pods in count_pending(state, totals.by_unit().values()).items() if pods}


def ask_for_all(state: VendorState) -> None:
    """What the scheduler does with pods that wait, again and again."""
    for waiting in state.waiting.values():
        if isinstance(waiting, SchedulingRequest):
            state.indexes.get(waiting.shape)


def half_full() -> VendorState:
    """Two nodes with two cards of 16 units; a pod holds 10 units of each card."""
    state = state_of(a_node("node-1", 16, 16, modes=BOTH), a_node("node-2", 16, 16, modes=BOTH))
    for number, (node, index) in enumerate((n, i) for n in ("node-1", "node-2") for i in (0, 1)):
        state.pod_applied(a_pod(f"holder-{number}", 10, node=node, record=on_card(index, 10)))
    return state


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(a_pod("p", 6), PendingReason.FITS, id="a card has room"),
        pytest.param(a_pod("p", 7), PendingReason.FRAGMENTED, id="four cards together have room"),
        pytest.param(a_pod("p", 16), PendingReason.FRAGMENTED, id="a whole card's units"),
        pytest.param(a_pod("p", 17), PendingReason.NEVER, id="more than any card"),
        pytest.param(a_pod("p", 12, annotations={CARDS: "2"}), PendingReason.FITS, id="two cards of a node have room"),
        pytest.param(a_pod("p", 20, annotations={CARDS: "2"}), PendingReason.FRAGMENTED, id="no two cards of a node"),
        pytest.param(a_pod("p", 30, annotations={CARDS: "2"}), PendingReason.FULL, id="more than is free in all"),
        pytest.param(a_pod("p", 30, annotations={CARDS: "3"}), PendingReason.NEVER, id="more cards than a node has"),
        pytest.param(
            a_pod("p", 7, annotations={USE_CARDS: "1"}), PendingReason.FULL, id="the cards it allows are taken"
        ),
        pytest.param(a_pod("p", None, whole=1), PendingReason.FULL, id="no card is empty"),
        pytest.param(a_pod("p", "many"), PendingReason.REFUSED, id="no number"),
        pytest.param(
            msgspec.convert({**DOCUMENT, "spec": {**DOCUMENT["spec"], "schedulingGates": [{"name": "kueue"}]}}, Pod),
            PendingReason.GATED,
            id="gated",
        ),
    ],
)
def test_a_pod_waits_for_one_reason(pod: Pod, reason: PendingReason) -> None:
    state = half_full()
    state.pod_applied(pod)
    ask_for_all(state)
    assert reasons(state) == {reason: 1}


def test_empty_cards_on_different_nodes_are_fragmented_for_a_pod_that_wants_two() -> None:
    state = state_of(a_node("node-1", 16, 16, modes=BOTH), a_node("node-2", 16, 16, modes=BOTH))
    for node in ("node-1", "node-2"):
        state.pod_applied(a_pod(f"holder-{node}", 1, node=node, record=on_card(0, 1)))
    state.pod_applied(a_pod("one", None, whole=1))
    state.pod_applied(a_pod("two", None, whole=2))
    assert reasons(state) == {PendingReason.FITS: 1, PendingReason.FRAGMENTED: 1}


def test_a_pod_whose_binding_is_under_way_waits_no_more() -> None:
    state = state_of(a_node("node-1", 16))
    state.pod_applied(a_pod("p", 4))
    assert reasons(state) == {PendingReason.FITS: 1}
    waiting = state.waiting["uid-p"]
    assert isinstance(waiting, SchedulingRequest)
    state.ledger.reserve(waiting.pod, "node-1", waiting.cards, state.preferences.rank_cards(waiting, None))
    assert reasons(state) == {}


def test_of_choosy_pods_only_those_that_the_scheduler_asked_for_lately_are_judged() -> None:
    state = state_of(a_node("node-1", 16))
    for number in range(MAX_SEARCHED_SHAPES + 5):
        state.pod_applied(a_pod(f"p-{number}", 1, annotations={USE_CARDS: f"0,{number + 1}"}))
    state.pod_applied(a_pod("plain", 1))
    assert reasons(state) == {PendingReason.FITS: 1, PendingReason.UNKNOWN: MAX_SEARCHED_SHAPES + 5}
    ask_for_all(state)
    assert reasons(state) == {PendingReason.FITS: 1 + MAX_SEARCHED_SHAPES, PendingReason.UNKNOWN: 5}


class TestElsewhere:
    def test_room_that_the_scheduler_did_not_ask_about_is_elsewhere(self) -> None:
        state = state_of(a_node("node-a", 16), a_node("node-b", 16))
        state.pod_applied(a_pod("x", 16, node="node-a", record=on_card(0, 16)))
        for name, names in (("p", {"node-a"}), ("q", {"node-a", "node-b"})):
            state.pod_applied(a_pod(name, 12))
            state.refused_on.record(f"uid-{name}", frozenset(names))
        state.pod_applied(a_pod("r", 12))
        ask_for_all(state)
        assert reasons(state) == {PendingReason.ELSEWHERE: 1, PendingReason.FITS: 2}

        state.pod_deleted("uid-x")
        assert reasons(state) == {PendingReason.FITS: 3}

    def test_of_very_many_sets_only_some_are_searched(self) -> None:
        state = state_of(a_node("node-a", 16))
        for number in range(MAX_SEARCHED_SETS + 3):
            state.pod_applied(a_pod(f"p-{number}", 1))
            state.refused_on.record(f"uid-p-{number}", frozenset({f"other-{number}"}))
        ask_for_all(state)
        assert reasons(state) == {PendingReason.ELSEWHERE: MAX_SEARCHED_SETS, PendingReason.UNKNOWN: 3}
