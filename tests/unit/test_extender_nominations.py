"""Room that victims leave is the preemptor's: others of its priority or below get only the rest."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.errors import Refused
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.kept_room import compute_room_left, fits_after_nominees
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.explain.pending_reasons import PendingReason, count_pending
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.extender_settings import NamedNodes
from gcushare.scheduler_extender.state.nominations import (
    EXPECTED_S,
    GROUP_KEPT_S,
    GROUP_REFUSED_S,
    KEPT_S,
    Nominations,
)
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest, read_scheduling_request
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.filter import KEPT_REASON, FilterService
from gcushare.wire.extender_api import BindArguments
from gcushare.wire.objects import Pod
from tests.builders import GIB_UNIT, asks, asks_whole, cards, held
from tests.extender_objects import Document, a_node, filter_body, on_card, pod_document, state_of
from tests.unit.extender_binds import Rig
from tests.unit.extender_desk import Desk

HIGH, LOW = 100, 0


def convert(document: Document) -> Pod:
    return msgspec.convert(document, Pod)


def wanting(name: str, units: int, priority: int, *, nominated: str = "", **options: Any) -> Document:
    document = pod_document(name, units, **options)
    document["spec"]["priority"] = priority
    if nominated:
        document["status"]["nominatedNodeName"] = nominated
    return document


def crowded() -> VendorState:
    """Two cards of 16 on node-1: victim holds 12 of card 0, and other 12 of card 1."""
    state = state_of(a_node("node-1", 16, 16))
    for name, index in (("victim", 0), ("other", 1)):
        state.pod_applied(convert(pod_document(name, 12, node="node-1", record=on_card(index, 12))))
    return state


def leave(state: VendorState, name: str = "victim") -> None:
    """Have somebody ask for a pod's deletion; it holds its card until it is gone."""
    meta: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:10Z"}
    state.pod_applied(convert(pod_document(name, 12, node="node-1", record=on_card(0, 12), **meta)))


def filtered(state: VendorState, document: Document) -> tuple[list[str], dict[str, str]]:
    """The nodes that filter names, and why it refused the others."""
    answer = json.loads(Desk((state, None)).filter(filter_body(document, ["node-1"])).body)
    return answer["NodeNames"] or [], answer["FailedNodes"] or {}


async def preempt(state: VendorState, document: Document, *victims: str) -> None:
    meta = {"node-1": {"Pods": [{"UID": f"uid-{name}"} for name in victims], "NumPDBViolations": 0}}
    await Desk((state, None)).preempt(json.dumps({"Pod": document, "NodeNameToMetaVictims": meta}).encode())


class TestBetweenTheVictimsEndAndThePreemptorsNextTry:
    @staticmethod
    def emptied() -> VendorState:
        state = crowded()
        state.pod_applied(convert(wanting("preemptor", 16, HIGH, nominated="node-1")))
        leave(state)
        state.pod_deleted("uid-victim")
        return state

    @pytest.mark.parametrize("priority", [pytest.param(LOW, id="lower"), pytest.param(HIGH, id="equal")])
    def test_another_pod_is_refused_with_a_reason_of_its_own(self, priority: int) -> None:
        assert filtered(self.emptied(), wanting("thief", 8, priority)) == ([], {"node-1": KEPT_REASON})

    def test_a_pod_of_a_higher_priority_may_take_it(self) -> None:
        assert filtered(self.emptied(), wanting("urgent", 16, HIGH + 1)) == (["node-1"], {})

    def test_what_is_left_next_to_it_is_given(self) -> None:
        assert filtered(self.emptied(), wanting("small", 4, LOW)) == (["node-1"], {})

    @pytest.mark.parametrize(
        ("best", "failed"), [pytest.param(None, {"node-1", "node-3"}, id="all"), pytest.param(20, set(), id="the best")]
    )
    def test_nodes_where_nothing_is_kept_are_named(self, best: int | None, failed: set[str]) -> None:
        state = self.emptied()
        state.node_applied(a_node("node-2", 16))
        state.node_applied(a_node("node-3", 4))
        desk = Desk((state, FilterService(state, named=NamedNodes(best), refusals=lambda _: None)))
        answer = json.loads(desk.filter(filter_body(wanting("thief", 8, LOW), ["node-1", "node-2", "node-3"])).body)

        assert answer["NodeNames"] == ["node-2"]
        assert set(answer["FailedNodes"]) == failed
        assert state.named_with_record.get("uid-thief") == frozenset({"node-2"}), "only what filter named may be bound"

    @pytest.mark.parametrize("asks_first", [True, False])
    async def test_metrics_and_explain_say_that_the_room_is_kept(self, *, asks_first: bool) -> None:
        state = self.emptied()
        thief = wanting("thief", 8, LOW)
        state.pod_applied(convert(thief))
        request = state.find_request("uid-thief")
        assert request is not None
        state.indexes.get(request.shape)
        if asks_first:
            answer = Desk((state, None)).filter(filter_body(thief, ["node-1"]))
            assert answer.reason == "kept"
        totals = ClusterTotals(state.ledger, state.changes).by_unit().values()
        counts = count_pending(state, totals)
        assert {reason: pods for reason, pods in counts.items() if pods} == {
            PendingReason.KEPT: 1,
            PendingReason.FITS: 1,  # the preemptor itself
        }
        explained = await ExplainService(state).explain("default", "thief")
        assert [each.reason for each in explained.classes] == ["room is kept for another pod there"]
        assert (explained.can_ever_fit, explained.largest_that_fits_now) == (True, 0)

    @pytest.mark.parametrize("how", ["gone", "bound", "nominated elsewhere", "nominated no more"])
    def test_it_is_free_once_the_preemptor_needs_it_no_more(self, how: str) -> None:
        state = self.emptied()
        match how:
            case "gone":
                state.pod_deleted("uid-preemptor")
            case "bound":
                state.node_applied(a_node("node-2", 16))
                state.pod_applied(convert(wanting("preemptor", 16, HIGH, node="node-2", record=on_card(0, 16))))
            case "nominated elsewhere":
                state.pod_applied(convert(wanting("preemptor", 16, HIGH, nominated="node-2")))
            case _:
                state.pod_applied(convert(wanting("preemptor", 16, HIGH)))

        assert filtered(state, wanting("thief", 8, LOW)) == (["node-1"], {})


async def test_a_card_that_is_left_in_part_is_kept_from_preempts_answer_on() -> None:
    """The four free units on the victim's card are the preemptor's too, before its nomination is seen."""
    state = crowded()
    state.pod_deleted("uid-other")
    state.pod_applied(convert(pod_document("other", 16, node="node-1", record=on_card(1, 16))))
    await preempt(state, wanting("preemptor", 16, HIGH), "victim")

    assert filtered(state, wanting("thief", 4, LOW)) == ([], {"node-1": KEPT_REASON})


async def test_bind_keeps_the_room_as_well() -> None:
    """Filter answered before the preemptor was nominated."""
    rig = Rig(convert(wanting("thief", 12, LOW)), cards=(16,))
    rig.state.pod_applied(convert(wanting("preemptor", 12, HIGH, nominated="node-1")))
    with pytest.raises(Refused, match=r"kept for default/preemptor \(priority 100\)"):
        await rig.service.bind(BindArguments(PodRef("uid-thief", "default", "thief"), "node-1"))

    assert (rig.used(), rig.cluster.bindings) == ([0], [])


async def test_bind_gives_the_card_that_is_not_kept() -> None:
    rig = Rig(convert(wanting("small", 8, LOW)))
    rig.state.pod_applied(convert(wanting("preemptor", 16, HIGH, nominated="node-1")))
    await rig.service.bind(BindArguments(PodRef("uid-small", "default", "small"), "node-1"))

    assert rig.used() == [0, 8]


def test_of_two_preemptors_of_one_priority_the_first_waits_for_none() -> None:
    state = state_of(a_node("node-1", 16, 16))
    for index, name in enumerate(("victim", "other")):
        state.pod_applied(convert(pod_document(name, 16, node="node-1", record=on_card(index, 16))))
    first, second = (wanting(name, 16, HIGH, nominated="node-1") for name in ("first", "second"))
    state.pod_applied(convert(first))
    state.pod_applied(convert(second))
    leave(state)
    state.pod_deleted("uid-victim")

    assert filtered(state, first) == (["node-1"], {})
    assert filtered(state, second) == ([], {"node-1": KEPT_REASON})


class TestHowLong:
    @staticmethod
    def asking(name: str = "preemptor", priority: int = HIGH) -> SchedulingRequest:
        state = state_of()
        asking = read_scheduling_request(convert(wanting(name, 12, priority)), state.vendor, state.policies)
        assert asking is not None
        return asking

    def nominations(self) -> tuple[Nominations, list[float]]:
        now = [0.0]
        return Nominations(state_of(a_node("node-1", 16)).ledger, lambda: now[0]), now

    def closed(self, nominations: Nominations) -> bool:
        return bool(nominations.closed_to(self.asking("thief", LOW)))

    def test_a_nomination_ends_after_a_while_however_often_it_is_seen(self) -> None:
        nominations, now = self.nominations()
        for now[0] in (0.0, KEPT_S / 2, KEPT_S * 0.99):
            nominations.update(self.asking(), "node-1")
            assert self.closed(nominations)
        for now[0] in (KEPT_S, KEPT_S * 2):
            nominations.update(self.asking(), "node-1")
            assert not self.closed(nominations)

    def test_preempting_again_on_the_same_node_keeps_the_room_again(self) -> None:
        nominations, now = self.nominations()
        nominations.update(self.asking(), "node-1")
        now[0] = KEPT_S + 1
        nominations.expect(self.asking(), {"node-1": ["uid-victim"]})
        nominations.update(self.asking(), "node-1")
        now[0] += KEPT_S - 1
        assert self.closed(nominations)
        now[0] += 1
        assert not self.closed(nominations)

    def test_preempting_again_on_the_same_node_names_the_new_victims_at_once(self) -> None:
        state = crowded()
        state.pod_applied(convert(pod_document("more", 4, node="node-1", record=on_card(1, 4))))
        state.pod_applied(convert(wanting("preemptor", 16, HIGH, nominated="node-1")))
        assert filtered(state, wanting("thief", 4, LOW))[0] == ["node-1"], "no room is known to come free for it"
        asking = state.find_request("uid-preemptor")
        assert asking is not None
        state.nominations.expect(asking, {"node-1": ["uid-victim"]})
        assert filtered(state, wanting("thief", 4, LOW))[0] == []

    def test_preempting_again_on_the_same_node_costs_no_place_among_equals(self) -> None:
        nominations, _ = self.nominations()
        for name in ("first", "second"):
            nominations.update(self.asking(name), "node-1")
        nominations.expect(self.asking("first"), {"node-1": ["uid-victim"]})
        assert not nominations.closed_to(self.asking("first"))
        assert nominations.closed_to(self.asking("second"))

    def test_an_answer_of_preempt_that_nothing_follows_ends_soon(self) -> None:
        nominations, now = self.nominations()
        nominations.expect(self.asking(), {"node-1": ["uid-victim"]})
        nominations.update(self.asking(), "")
        assert self.closed(nominations), "the pod was written before the scheduler nominated it"
        now[0] = EXPECTED_S
        assert not self.closed(nominations)

    def test_an_answer_of_several_nodes_keeps_none(self) -> None:
        nominations, _ = self.nominations()
        nominations.expect(self.asking(), {"node-1": ["uid-a"], "node-2": ["uid-b"]})
        assert not self.closed(nominations)

    def test_an_expected_nominee_that_is_seen_keeps_its_victims_and_the_longer_time(self) -> None:
        now = 0.0
        state = state_of(a_node("node-1", 16, 16), monotonic=lambda: now)
        for name, index in (("victim", 0), ("other", 1)):
            state.pod_applied(convert(pod_document(name, 12, node="node-1", record=on_card(index, 12))))
        state.pod_applied(convert(wanting("preemptor", 16, HIGH)))
        asking = state.find_request("uid-preemptor")
        assert asking is not None
        state.nominations.expect(asking, {"node-1": ["uid-victim"]})
        state.pod_applied(convert(wanting("preemptor", 16, HIGH, nominated="node-1")))
        now = EXPECTED_S
        thief = self.asking("thief", LOW)
        (ahead,) = state.nominations.find_ahead(thief.pod).values()
        assert [(each.node, each.victims, each.is_seen) for each in ahead] == [
            ("node-1", frozenset({"uid-victim"}), True)
        ]
        assert state.nominations.room_left(thief, "node-1") == {0: 0}
        assert state.nominations.room_left(thief, "node-2") == {}


class TestRoomLeft:
    @staticmethod
    def node() -> NodeState:
        node = NodeState("node-1")
        node.set_cards(cards(16, 16), GIB_UNIT)
        for name, card, units in (("leaves", 0, 10), ("stays", 0, 2), ("other", 1, 6)):
            node.add(held(name, "node-1", (card, units)))
        return node

    def test_a_nominee_is_placed_where_pods_are_leaving(self) -> None:
        assert compute_room_left(self.node(), [asks(8)], ["uid-leaves"]) == {0: 6}

    def test_where_pods_leave_too_little_another_card_is_kept(self) -> None:
        assert compute_room_left(self.node(), [asks(10)], []) == {1: 0}

    def test_a_whole_card_is_kept_whole(self) -> None:
        left = compute_room_left(self.node(), [asks_whole()], ["uid-other"])
        assert left == {1: 0}
        assert not fits_after_nominees(self.node(), asks(5), left)
        assert fits_after_nominees(self.node(), asks(4), left)

    def test_a_victim_that_is_still_there_takes_nothing_from_what_is_left_next_to_the_nominee(self) -> None:
        left = compute_room_left(self.node(), [asks(10)], ["uid-leaves"])
        assert left == {0: 4}
        assert fits_after_nominees(self.node(), asks(4), left)


class TestGroups:
    """Filter answers all members before the first is bound, so it counts those that it has answered already."""

    @staticmethod
    def member(name: str, units: int, group: str = "train", priority: int = LOW) -> Document:
        document = wanting(name, units, priority)
        document["spec"]["schedulingGroup"] = {"podGroupName": group}
        return document

    def test_a_member_gets_no_room_that_filter_gave_to_another(self) -> None:
        state = state_of(a_node("node-1", 16, 16))
        assert filtered(state, self.member("m-1", 10)) == (["node-1"], {})
        assert filtered(state, self.member("m-2", 10)) == (["node-1"], {})
        assert filtered(state, self.member("m-3", 10)) == ([], {"node-1": KEPT_REASON})
        assert filtered(state, self.member("m-4", 6)) == (["node-1"], {})

    def test_a_member_is_offered_one_node_so_that_it_is_known_where_its_room_is(self) -> None:
        state = state_of(a_node("node-1", 16), a_node("node-2", 16))
        answers = [
            json.loads(Desk((state, None)).filter(filter_body(self.member(name, 10), ["node-1", "node-2"])).body)
            for name in ("m-1", "m-2", "m-3")
        ]
        assert [each["NodeNames"] for each in answers] == [["node-1"], ["node-2"], []]

    @pytest.mark.parametrize("priority", [pytest.param(LOW, id="equal"), pytest.param(HIGH, id="higher")])
    def test_no_one_gets_the_room_before_the_group_is_bound_whatever_the_priority(self, priority: int) -> None:
        state = state_of(a_node("node-1", 16))
        filtered(state, self.member("m-1", 10))
        assert filtered(state, wanting("thief", 10, priority)) == ([], {"node-1": KEPT_REASON})
        assert filtered(state, self.member("other", 10, "other", priority)) == ([], {"node-1": KEPT_REASON})

    def test_a_group_that_is_not_bound_soon_keeps_nothing(self) -> None:
        now = 0.0
        state = state_of(a_node("node-1", 16), monotonic=lambda: now)
        filtered(state, self.member("m-1", 10))
        now = GROUP_KEPT_S
        assert filtered(state, wanting("single", 10, LOW)) == (["node-1"], {})

    def test_the_room_of_the_first_is_kept_while_others_are_still_filtered(self) -> None:
        now = 0.0
        state = state_of(a_node("node-1", 16, 16), monotonic=lambda: now)
        filtered(state, self.member("m-1", 10))
        now = 0.9 * GROUP_KEPT_S
        filtered(state, self.member("m-2", 10))
        now = 1.5 * GROUP_KEPT_S
        assert filtered(state, wanting("thief", 10, LOW)) == ([], {"node-1": KEPT_REASON})

    def test_the_room_of_a_refused_group_is_free_after_a_moment_and_that_of_others_is_not(self) -> None:
        now = 0.0
        state = state_of(a_node("node-1", 16, 16), monotonic=lambda: now)
        assert filtered(state, self.member("m-1", 10))[0] == ["node-1"]
        assert filtered(state, self.member("o-1", 10, "other"))[0] == ["node-1"]
        assert filtered(state, self.member("m-2", 10)) == ([], {"node-1": KEPT_REASON})
        assert len(state.nominations) == 2
        now = 1.5 * GROUP_REFUSED_S
        assert filtered(state, wanting("single", 10, LOW))[0] == ["node-1"]
        state.pod_applied(convert(wanting("taker", 10, LOW, node="node-1", record=on_card(0, 10))))
        assert filtered(state, wanting("thief", 10, LOW)) == ([], {"node-1": KEPT_REASON})
        assert filtered(state, self.member("m-1", 4))[0] == ["node-1"], "the next attempt begins"
        now += 0.9 * GROUP_KEPT_S
        assert "uid-m-1" in state.nominations
        assert len(state.nominations.find_ahead(PodRef("uid-x", "default", "x"))) == 1, "refusals of before are over"

    def test_a_new_attempt_starts_with_what_others_hold(self) -> None:
        state = state_of(a_node("node-1", 16, 16))
        for _ in range(3):
            assert filtered(state, self.member("m-1", 10)) == (["node-1"], {})
            assert filtered(state, self.member("m-2", 10)) == (["node-1"], {})
            assert filtered(state, self.member("m-3", 10)) == ([], {"node-1": KEPT_REASON})

    async def test_all_members_can_be_bound_where_filter_offered_them(self) -> None:
        members = [self.member(f"m-{number}", units) for number, units in enumerate((10, 6, 10, 6))]
        rig = Rig(*map(convert, members))
        for each in members:
            assert filtered(rig.state, each) == (["node-1"], {})
        for each in members:
            await rig.bind(each["metadata"]["name"])
        assert rig.used() == [16, 16]
