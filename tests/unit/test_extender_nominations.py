"""Room that victims leave is the preemptor's: others of its priority or below get only the rest."""

from __future__ import annotations

from typing import Any

import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.errors import Refused
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.explain.pending_reasons import PendingReason, count_pending
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.nominations import EXPECTED_S, GROUP_KEPT_S, GROUP_REFUSED_S, KEPT_S, Nominations
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.filter import KEPT_REASON
from tests.extender_objects import (
    a_node,
    a_pod,
    filter_body,
    known_request,
    on_card,
    pod_document,
    request_of,
    state_of,
)
from tests.unit.extender_binds import Rig
from tests.unit.extender_desk import Desk, answer_of, victims_of

HIGH, LOW = 100, 0
GIVEN: tuple[list[str], dict[str, str]] = (["node-1"], {})
KEPT: tuple[list[str], dict[str, str]] = ([], {"node-1": KEPT_REASON})


def crowded(units: int = 12) -> VendorState:
    """Two cards of 16 on node-1: victim holds 12 of card 0, and other so much of card 1."""
    state = state_of(a_node("node-1", 16, 16))
    state.pod_applied(a_pod("victim", 12, node="node-1", record=on_card(0, 12)))
    state.pod_applied(a_pod("other", units, node="node-1", record=on_card(1, units)))
    return state


def leave(state: VendorState) -> None:
    """Have the victim end; it holds its card until it is gone."""
    ending: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:10Z"}
    state.pod_applied(a_pod("victim", 12, node="node-1", record=on_card(0, 12), **ending))
    state.pod_deleted("uid-victim")


def filtered(
    state: VendorState, name: str, units: int, priority: int = LOW, **options: Any
) -> tuple[list[str], dict[str, str]]:
    """The nodes that filter names, and why it refused the others."""
    answer = answer_of(state, pod_document(name, units, priority=priority, **options), "node-1")
    return answer["NodeNames"], answer["FailedNodes"]


class TestBetweenTheVictimsEndAndThePreemptorsNextTry:
    @staticmethod
    def emptied() -> VendorState:
        state = crowded()
        state.pod_applied(a_pod("preemptor", 16, priority=HIGH, nominated="node-1"))
        leave(state)
        return state

    @pytest.mark.parametrize(
        ("units", "priority", "found"),
        [
            pytest.param(8, LOW, KEPT, id="kept from a lower priority"),
            pytest.param(8, HIGH, KEPT, id="kept from an equal one"),
            pytest.param(16, HIGH + 1, GIVEN, id="a higher one may take it"),
            pytest.param(4, LOW, GIVEN, id="what is left next to it"),
        ],
    )
    def test_another_pod_gets_what_is_not_kept_from_it(
        self, units: int, priority: int, found: tuple[list[str], dict[str, str]]
    ) -> None:
        assert filtered(self.emptied(), "thief", units, priority) == found

    @pytest.mark.parametrize(
        ("most", "failed"), [pytest.param(None, {"node-1", "node-3"}, id="all"), pytest.param(20, set(), id="the best")]
    )
    def test_nodes_where_nothing_is_kept_are_named(self, most: int | None, failed: set[str]) -> None:
        state = self.emptied()
        state.node_applied(a_node("node-2", 16))
        state.node_applied(a_node("node-3", 4))
        answer = answer_of(state, pod_document("thief", 8), most=most)

        assert answer["NodeNames"] == ["node-2"]
        assert set(answer["FailedNodes"]) == failed
        assert state.named_with_record.get("uid-thief") == frozenset({"node-2"}), "only what filter named may be bound"

    @pytest.mark.parametrize("asks_first", [True, False])
    async def test_metrics_and_explain_say_that_the_room_is_kept(self, *, asks_first: bool) -> None:
        state = self.emptied()
        state.pod_applied(a_pod("thief", 8))
        state.indexes.get(known_request(state, "thief").shape)
        if asks_first:
            Desk((state, None)).filter(filter_body(pod_document("thief", 8), ["node-1"]))
        counts = count_pending(state, ClusterTotals(state.ledger, state.changes).by_unit().values())
        counted = {reason: pods for reason, pods in counts.items() if pods}
        assert counted == {PendingReason.KEPT: 1, PendingReason.FITS: 1}, "the preemptor itself fits"
        explained = await ExplainService(state).explain("default", "thief")
        assert [each.reason for each in explained.classes] == ["room is kept for another pod there"]
        assert (explained.can_ever_fit, explained.largest_that_fits_now) == (True, 0)

    @pytest.mark.parametrize(
        "how", ["gone", "bound", "being deleted", "in doubt", "nominated elsewhere", "nominated no more"]
    )
    def test_it_is_free_once_the_preemptor_needs_it_no_more(self, how: str) -> None:
        state = self.emptied()
        match how:
            case "gone":
                state.pod_deleted("uid-preemptor")
            case "bound":
                state.node_applied(a_node("node-2", 16))
                state.pod_applied(a_pod("preemptor", 16, priority=HIGH, node="node-2", record=on_card(0, 16)))
            case "being deleted" | "in doubt":
                ending = {"deletionTimestamp": "2026-01-01T00:00:10Z"} if how == "being deleted" else {}
                wrong = {"gcushare.io/cards": "x"} if how == "in doubt" else {}
                kept = a_pod("preemptor", 16, priority=HIGH, nominated="node-1", annotations=wrong, **ending)
                state.pod_applied(kept)  # a finalizer holds it
            case _:
                elsewhere = "node-2" if how == "nominated elsewhere" else ""
                state.pod_applied(a_pod("preemptor", 16, priority=HIGH, nominated=elsewhere))

        assert filtered(state, "thief", 8) == GIVEN


async def test_a_card_that_is_left_in_part_is_kept_from_preempts_answer_on() -> None:
    """The four free units on the victim's card are the preemptor's too, before its nomination is seen."""
    state = crowded(16)
    await victims_of(state, pod_document("preemptor", 16, priority=HIGH), {"node-1": ["victim"]})

    assert filtered(state, "thief", 4) == KEPT


async def test_bind_keeps_the_room_as_well_and_gives_the_other_card() -> None:
    """Filter answered before the preemptor was nominated."""
    rig = Rig(a_pod("thief", 12), a_pod("large", 16))
    rig.state.pod_applied(a_pod("preemptor", 16, priority=HIGH, nominated="node-1"))
    await rig.bind("thief")
    assert rig.used() == [0, 12]
    with pytest.raises(Refused, match=r"kept for default/preemptor \(priority 100\)"):
        await rig.bind("large")

    assert (rig.used(), len(rig.cluster.bindings)) == ([0, 12], 1)


def test_of_two_preemptors_of_one_priority_the_first_waits_for_none() -> None:
    state = crowded(16)
    for name in ("first", "second"):
        state.pod_applied(a_pod(name, 16, priority=HIGH, nominated="node-1"))
    leave(state)

    assert filtered(state, "first", 16, HIGH, nominated="node-1") == GIVEN
    assert filtered(state, "second", 16, HIGH, nominated="node-1") == KEPT


class TestHowLong:
    def setup_method(self) -> None:
        self.now_s = 0.0
        self.nominations = Nominations(state_of(a_node("node-1", 16)).ledger, lambda: self.now_s)

    @staticmethod
    def asking(name: str = "preemptor", priority: int = HIGH) -> SchedulingRequest:
        return request_of(a_pod(name, 12, priority=priority))

    def is_closed(self) -> bool:
        return bool(self.nominations.closed_to(self.asking("thief", LOW)))

    def test_a_nomination_ends_after_a_while_however_often_it_is_seen(self) -> None:
        for self.now_s in (0.0, KEPT_S / 2, KEPT_S * 0.99):
            self.nominations.update(self.asking(), "node-1")
            assert self.is_closed()
        for self.now_s in (KEPT_S, KEPT_S * 2):
            self.nominations.update(self.asking(), "node-1")
            assert not self.is_closed()

    def test_preempting_again_on_the_same_node_keeps_the_room_again(self) -> None:
        self.nominations.update(self.asking(), "node-1")
        self.now_s = KEPT_S + 1
        self.nominations.expect(self.asking(), {"node-1": ["uid-victim"]})
        self.nominations.update(self.asking(), "node-1")
        self.now_s += KEPT_S - 1
        assert self.is_closed()
        self.now_s += 1
        assert not self.is_closed()

    def test_preempting_again_on_the_same_node_names_the_new_victims_at_once(self) -> None:
        state = crowded(16)
        state.pod_applied(a_pod("preemptor", 16, priority=HIGH, nominated="node-1"))
        assert filtered(state, "thief", 4) == GIVEN, "no room is known to come free for it"
        state.nominations.expect(known_request(state, "preemptor"), {"node-1": ["uid-victim"]})
        assert filtered(state, "thief", 4) == KEPT

    def test_preempting_again_on_the_same_node_costs_no_place_among_equals(self) -> None:
        for name in ("first", "second"):
            self.nominations.update(self.asking(name), "node-1")
        self.nominations.expect(self.asking("first"), {"node-1": ["uid-victim"]})
        assert not self.nominations.closed_to(self.asking("first"))
        assert self.nominations.closed_to(self.asking("second"))

    def test_an_answer_of_preempt_that_nothing_follows_ends_soon(self) -> None:
        self.nominations.expect(self.asking(), {"node-1": ["uid-victim"]})
        self.nominations.update(self.asking(), "")
        assert self.is_closed(), "the pod was written before the scheduler nominated it"
        self.now_s = EXPECTED_S
        assert not self.is_closed()

    def test_an_answer_of_several_nodes_keeps_none(self) -> None:
        self.nominations.expect(self.asking(), {"node-1": ["uid-a"], "node-2": ["uid-b"]})
        assert not self.is_closed()

    def test_an_expected_nominee_that_is_seen_keeps_its_victims_and_the_longer_time(self) -> None:
        self.nominations.expect(self.asking(), {"node-1": ["uid-victim"]})
        self.nominations.update(self.asking(), "node-1")
        self.now_s = EXPECTED_S
        (ahead,) = self.nominations.find_ahead(PodRef("uid-thief", "default", "thief")).values()
        assert [(each.node, each.victims, each.is_seen) for each in ahead] == [
            ("node-1", frozenset({"uid-victim"}), True)
        ]
        thief = self.asking("thief", LOW)
        assert [self.nominations.room_left(thief, node) for node in ("node-1", "node-2")] == [{0: 4}, {}]


class TestGroups:
    """Filter answers all members before the first is bound, so it counts those that it has answered already."""

    @staticmethod
    def filtered(state: VendorState, name: str, units: int = 10) -> tuple[list[str], dict[str, str]]:
        """Filter's answer for a member; the group is the first letter of its name."""
        return filtered(state, name, units, group=name[0])

    def test_a_member_gets_no_room_that_filter_gave_to_another_of_the_same_attempt(self) -> None:
        state = state_of(a_node("node-1", 16, 16))
        for _ in range(3):
            assert [self.filtered(state, f"m-{number}") for number in (1, 2, 3)] == [GIVEN, GIVEN, KEPT]
            assert self.filtered(state, "m-4", 6) == GIVEN

    def test_a_member_is_offered_one_node_so_that_it_is_known_where_its_room_is(self) -> None:
        state = state_of(a_node("node-1", 16), a_node("node-2", 16))
        answers = [answer_of(state, pod_document(name, 10, group="m")) for name in ("m-1", "m-2", "m-3")]
        assert [each["NodeNames"] for each in answers] == [["node-1"], ["node-2"], []]

    @pytest.mark.parametrize("priority", [pytest.param(LOW, id="equal"), pytest.param(HIGH, id="higher")])
    def test_no_one_gets_the_room_before_the_group_is_bound_whatever_the_priority(self, priority: int) -> None:
        state = state_of(a_node("node-1", 16))
        self.filtered(state, "m-1")
        assert filtered(state, "thief", 10, priority) == KEPT
        assert filtered(state, "other", 10, priority, group="other") == KEPT

    def test_the_room_is_kept_while_others_are_filtered_and_not_for_long_after_the_last(self) -> None:
        now = 0.0
        state = state_of(a_node("node-1", 16, 16), monotonic=lambda: now)
        self.filtered(state, "m-1")
        now = 0.9 * GROUP_KEPT_S
        self.filtered(state, "m-2")
        now = 1.5 * GROUP_KEPT_S
        assert filtered(state, "thief", 10) == KEPT
        now = 1.9 * GROUP_KEPT_S
        assert filtered(state, "thief", 10) == GIVEN

    def test_the_room_of_a_refused_group_is_free_after_a_moment_and_that_of_others_is_not(self) -> None:
        now = 0.0
        state = state_of(a_node("node-1", 16, 16), monotonic=lambda: now)
        assert [self.filtered(state, name) for name in ("m-1", "o-1", "m-2")] == [GIVEN, GIVEN, KEPT]
        assert len(state.nominations) == 2
        now = 1.5 * GROUP_REFUSED_S
        assert filtered(state, "single", 10) == GIVEN
        state.pod_applied(a_pod("taker", 10, node="node-1", record=on_card(0, 10)))
        assert filtered(state, "thief", 10) == KEPT
        assert self.filtered(state, "m-1", 4) == GIVEN, "the next attempt begins"
        now += 0.9 * GROUP_KEPT_S
        assert "uid-m-1" in state.nominations
        assert len(state.nominations.find_ahead(PodRef("uid-x", "default", "x"))) == 1, "refusals of before are over"

    def test_a_member_that_is_refused_on_its_nominated_node_and_then_fits_keeps_the_groups_room(self) -> None:
        now = 0.0
        state = state_of(a_node("node-1", 16), a_node("node-2", 16), monotonic=lambda: now)
        assert [self.filtered(state, name) for name in ("m-1", "m-2")] == [GIVEN, KEPT]
        assert answer_of(state, pod_document("m-2", 10, group="m"), "node-1", "node-2")["NodeNames"] == ["node-2"]
        now = 1.5 * GROUP_REFUSED_S
        assert filtered(state, "thief", 10) == KEPT

    async def test_all_members_can_be_bound_where_filter_offered_them(self) -> None:
        members = {"m-0": 10, "m-1": 6, "m-2": 10, "m-3": 6}
        rig = Rig(*(a_pod(name, units, group="m") for name, units in members.items()))
        for name, units in members.items():
            assert self.filtered(rig.state, name, units) == GIVEN
        for name in members:
            await rig.bind(name)
        assert rig.used() == [16, 16]
