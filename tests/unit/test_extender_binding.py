"""bind: whatever becomes of the request or the leader, the ledger ends as the cluster is, and no pod has two cards."""

from __future__ import annotations

import asyncio

import pytest

from gcushare.core.errors import ForbiddenError, GcushareError, Refused, RetryableError
from gcushare.core.requests import CardRequest
from gcushare.kube.errors import UnknownOutcomeError
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.runtime.shutdown import STOP_DEADLINE_S
from gcushare.scheduler_extender.app import BINDS_DRAIN_S, DRAIN_S, EVENTS_DRAIN_S, REQUESTS_DRAIN_S
from gcushare.scheduler_extender.leadership import NotLeader
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import (
    CARD_MODE,
    CARD_POLICY,
    CARD_UUID,
    CORRECTED,
    RECORDED_UID,
    UNITS_BY_CARD,
    USE_CARDS,
    record_keys,
)
from gcushare.wire.objects import Pod
from tests.extender_objects import a_pod, on_card, recount, request_of
from tests.unit.extender_binds import ALWAYS, QUICK, Office, Rig
from tests.unit.extender_cluster import Mishap


async def test_a_bind_is_one_request_that_carries_the_record_and_is_counted_at_once() -> None:
    rig = Rig(a_pod("a", 4))
    await rig.bind()

    assert len(rig.cluster.bindings) == 1
    assert rig.cluster.reads == 0
    assert rig.used() == [4, 0]
    written = rig.cluster.pods["default", "a"].metadata.annotations
    keys = ENFLAME.record
    assert written == {
        keys.card_index: "0",
        keys.card_units: "16",
        keys.pod_units: "4",
        keys.assigned: "false",
        keys.assign_time: "1000",
        RECORDED_UID: "uid-a",
    }
    rig.check_truth()


async def test_what_a_manifest_brought_of_another_life_is_gone_after_the_bind() -> None:
    """A Binding removes nothing, so what the new record lacks is made empty; other annotations stay."""
    before = {CARD_UUID: "GCU-9", CARD_MODE: "whole", UNITS_BY_CARD: "1,3", CORRECTED: "1->9", RECORDED_UID: "uid-then"}
    times = {ENFLAME.record.assigned: "true", ENFLAME.record.assign_time: "7", ENFLAME.record.card_index: "9"}
    rig = Rig(a_pod("a", 4, annotations={**before, **times, "app": "kept"}))
    await rig.bind()
    written = rig.cluster.pods["default", "a"].metadata.annotations
    assert {key: written[key] for key in before} == dict.fromkeys(before, "") | {RECORDED_UID: "uid-a"}
    assert [written[key] for key in times] == ["false", "1000", "0"]
    assert written["app"] == "kept"
    assert set(written) - {"app"} <= set(record_keys(ENFLAME)), "the policy lets a Binding carry no other key"
    rig.check_truth()


async def test_the_watch_confirms_a_reservation_without_changing_anything() -> None:
    rig = Rig(a_pod("a", 4))
    await rig.bind()
    position = rig.state.changes.position
    rig.cluster.tell(rig.state)

    assert rig.state.changes.position == position
    assert recount(rig.state) == []


@pytest.mark.parametrize(
    ("mishaps", "requests"),
    [
        pytest.param([Mishap.LOST_AFTER], 1, id="done, answer lost"),
        pytest.param([Mishap.LOST_BEFORE], 2, id="lost on the way"),
        pytest.param([Mishap.LOST_BEFORE, Mishap.LOST_AFTER], 2, id="lost twice"),
        pytest.param([Mishap.NOT_SENT, Mishap.NOT_SENT], 3, id="no connection twice"),
        pytest.param([Mishap.CONFLICT], 2, id="modified meanwhile"),
    ],
)
async def test_what_can_still_come_true_is_brought_to_its_end(mishaps: list[Mishap], requests: int) -> None:
    rig = Rig(a_pod("a", 4))
    rig.cluster.mishaps.extend(mishaps)
    await rig.bind()

    assert len(rig.cluster.bindings) == requests
    assert rig.cluster.pods["default", "a"].spec.node_name == "node-1"
    assert rig.used() == [4, 0]
    rig.cluster.arrive()
    rig.check_truth()


@pytest.mark.parametrize(
    ("mishap", "error"),
    [(Mishap.FORBIDDEN, ForbiddenError), (Mishap.NOT_SENT, RetryableError)],
    ids=["403", "no answer"],
)
async def test_a_binding_that_came_to_nothing_returns_the_units_at_once(
    mishap: Mishap, error: type[GcushareError]
) -> None:
    rig = Rig(a_pod("a", 4))
    rig.cluster.mishaps.extend([mishap] * ALWAYS)
    with pytest.raises(error, match=r"pods/binding is forbidden|nothing was sent"):
        await rig.bind()

    assert rig.used() == [0, 0]
    rig.check_truth()


@pytest.mark.parametrize("arrives", [False, True])
async def test_an_outcome_that_stays_unknown_keeps_the_units_until_it_is_read(arrives: bool) -> None:
    rig = Rig(a_pod("a", 4))
    rig.cluster.mishaps.extend([Mishap.LOST_BEFORE] * ALWAYS)
    rig.cluster.read_mishaps.extend([Mishap.LOST_BEFORE] * ALWAYS)
    with pytest.raises(UnknownOutcomeError):
        await rig.bind()
    assert rig.used() == [4, 0]

    rig.cluster.read_mishaps.clear()
    if arrives:
        rig.cluster.arrive()
    await rig.service.confirm(older_than_s=0.0)

    assert rig.used() == ([4, 0] if arrives else [0, 0])
    rig.check_truth()


async def test_settling_leaves_young_reservations_and_a_silent_server_alone() -> None:
    rig = Rig(a_pod("a", 4))
    await rig.bind()
    await rig.service.confirm(older_than_s=60.0)
    assert rig.cluster.reads == 0

    rig.cluster.read_mishaps.append(Mishap.LOST_BEFORE)
    await rig.service.confirm(older_than_s=0.0)
    assert rig.state.ledger.is_reserved("uid-a")
    await rig.service.confirm(older_than_s=0.0)
    assert not rig.state.ledger.is_reserved("uid-a")
    assert rig.used() == [4, 0]


class TestRepeated:
    async def test_a_bind_asked_again_after_the_watch_reported_is_done_already(self) -> None:
        rig = Rig(a_pod("a", 4))
        await rig.bind()
        rig.cluster.tell(rig.state)
        await rig.bind()

        assert len(rig.cluster.bindings) == 1

    @pytest.mark.parametrize("reported", [False, True])
    async def test_a_bound_pod_is_not_bound_to_another_node(self, reported: bool) -> None:
        rig = Rig(a_pod("a", 4))
        await rig.bind()
        if reported:
            rig.cluster.tell(rig.state)
        with pytest.raises(Refused, match="bound to node 'node-1' already"):
            await rig.bind(node="node-2")

        assert rig.used("node-2") == [0, 0]

    async def test_calls_for_one_pod_at_the_same_time_are_one_binding(self) -> None:
        rig = Rig(a_pod("a", 4))
        results = await asyncio.gather(rig.bind(), rig.bind(), rig.bind(node="node-2"), return_exceptions=True)

        assert (results[0], results[1]) == (None, None)
        assert isinstance(results[2], Refused)
        assert len(rig.cluster.bindings) == 1


class TestRefused:
    @pytest.mark.parametrize(
        ("pods", "call", "reason"),
        [
            pytest.param([], {}, "pod default/a does not exist", id="an unknown pod"),
            pytest.param([a_pod("a")], {"node": "nowhere"}, "'nowhere'", id="an unknown node"),
            pytest.param([a_pod("a")], {"uid": "uid-of-the-pod-before"}, "it is another pod", id="another uid"),
            pytest.param([a_pod("a"), a_pod("b")], {"name": "b", "uid": "uid-a"}, "is pod default/a", id="misnamed"),
            pytest.param([a_pod("a", None)], {}, "asks for no", id="a pod that asks for nothing"),
            pytest.param([a_pod("a", "1.5")], {}, r"1\.5", id="a pod that asks for nonsense"),
        ],
    )
    async def test_a_call_with_what_is_wrong_about_it(self, pods: list[Pod], call: dict[str, str], reason: str) -> None:
        rig = Rig(*pods)
        with pytest.raises(Refused, match=reason):
            await rig.bind(**call)

    async def test_a_pod_whose_room_was_taken_meanwhile(self) -> None:
        rig = Rig(a_pod("a", 12), a_pod("b", 12), a_pod("c", 12))
        await rig.bind("a")
        await rig.bind("b")
        with pytest.raises(Refused, match="needs 12 GB in one card; best card free: 4 GB"):
            await rig.bind("c")
        await rig.bind("c", "node-2")

        rig.check_truth()

    @pytest.mark.parametrize(
        ("found", "reason"),
        [
            pytest.param(a_pod("a", deletionTimestamp="2026-01-01T00:00:00Z"), "being deleted", id="ending"),
            pytest.param(a_pod("a", uid="uid-second"), "does not exist any more", id="another of its name"),
            pytest.param(a_pod("a", node="node-2", record=on_card(1, 4)), "'node-2'", id="bound by somebody else"),
        ],
    )
    async def test_a_pod_that_is_not_as_it_was_seen(self, found: Pod, reason: str) -> None:
        rig = Rig(a_pod("a"))
        rig.cluster.put(found)
        with pytest.raises(Refused, match=reason):
            await rig.bind()

        assert (rig.used("node-1"), rig.used("node-2")) == ([0, 0], [0, 4] if found.is_bound else [0, 0])
        assert rig.cluster.pods["default", "a"].spec.node_name == found.spec.node_name
        rig.check_truth()


@pytest.mark.parametrize("by_filter", [True, False])
async def test_a_pod_that_the_watch_has_not_shown_is_read_once_unless_filter_has_seen_it(by_filter: bool) -> None:
    rig = Rig()
    pod = a_pod("a", 4)
    rig.cluster.put(pod)
    if by_filter:
        rig.state.remember(request_of(pod))
    await rig.bind()

    assert rig.cluster.reads == (0 if by_filter else 1)
    rig.check_truth()


async def test_the_authors_card_policy_and_choice_of_cards_are_obeyed() -> None:
    rig = Rig(
        a_pod("a", 4),
        a_pod("b", 4, annotations={CARD_POLICY: "spread"}),
        a_pod("c", 4, annotations={USE_CARDS: "uuid-1"}),
    )
    for name in ("a", "b", "c"):
        await rig.bind(name)
        rig.cluster.start(name)
        rig.cluster.tell(rig.state)

    assert rig.used() == [4, 8]


class TestLeadership:
    @pytest.mark.parametrize("office", [Office(is_leader=False), Office(questions_left=1)], ids=["never", "to send"])
    async def test_who_leads_no_more_binds_nothing_and_names_the_leader(self, office: Office) -> None:
        rig = Rig(a_pod("a"), office=office)
        with pytest.raises(NotLeader, match="the leader is another"):
            await rig.bind()

        assert rig.cluster.bindings == []
        assert rig.used() == [0, 0]

    async def test_the_lease_must_outlast_the_request(self) -> None:
        rig = Rig(a_pod("a"))
        await rig.bind()

        assert set(rig.office.margins) == {QUICK.attempt_s}

    async def test_leadership_lost_between_two_attempts_keeps_what_may_still_come_true(self) -> None:
        rig = Rig(a_pod("a"), office=Office(questions_left=2))
        rig.cluster.mishaps.append(Mishap.LOST_BEFORE)
        with pytest.raises(NotLeader):
            await rig.bind()
        assert rig.used() == [4, 0]

        rig.cluster.arrive()
        rig.check_truth()
        assert rig.used() == [4, 0]


@pytest.mark.parametrize("awaits", range(8))
@pytest.mark.parametrize("mishap", list(Mishap))
async def test_a_process_that_dies_after_any_step_leaves_a_cluster_that_its_successor_counts_rightly(
    mishap: Mishap, awaits: int
) -> None:
    """Killed after so many turns of the loop; what was on the way arrives; the successor knows only the cluster."""
    rig = Rig(a_pod("a", 12), a_pod("b", 12))
    await rig.bind("b", "node-2")
    rig.cluster.mishaps.append(mishap)
    dying = asyncio.create_task(rig.bind("a"))
    for _ in range(awaits):
        await asyncio.sleep(0)
    await kill(rig.service, dying)
    rig.cluster.arrive()

    pod = rig.cluster.pods["default", "a"]
    assert pod.is_bound == (ENFLAME.record.card_index in pod.metadata.annotations)
    successor = Rig(cards=(16,))
    successor.cluster = rig.cluster
    rig.cluster.tell(successor.state)
    assert successor.used("node-1") == ([12] if pod.is_bound else [0])
    assert successor.state.ledger.nodes["node-1"].fits(CardRequest(12)) != pod.is_bound


async def kill(service: BindService, *callers: asyncio.Task[None]) -> None:
    """End callers and bindings wherever they are."""
    own = [task for task in asyncio.all_tasks() if task.get_name().startswith("bind ")]
    for task in (*callers, *own):
        task.cancel()
    await asyncio.gather(*callers, *own, return_exceptions=True)


class TestTheEnd:
    """What ends in time is waited for, the rest is cancelled."""

    @staticmethod
    async def left_alone() -> tuple[Rig, asyncio.Event]:
        """A bind whose caller went away while its Binding is on its way."""
        rig = Rig(a_pod("a", 4))
        caller, arrives = await rig.begin()
        caller.cancel()
        await asyncio.wait([caller])
        assert rig.service.under_way == 1
        return rig, arrives

    async def test_a_binding_without_a_caller_is_waited_for(self) -> None:
        rig, arrives = await self.left_alone()
        draining = asyncio.create_task(rig.service.drain(60))
        await asyncio.sleep(0)
        arrives.set()
        await draining

        assert (rig.cluster.pods["default", "a"].is_bound, rig.service.under_way) == (True, 0)
        rig.check_truth()

    async def test_one_that_takes_too_long_is_cancelled_and_gone_when_the_drain_returns(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        before = asyncio.all_tasks()
        rig, _ = await self.left_alone()
        await rig.service.drain(0.01)

        assert (rig.service.under_way, asyncio.all_tasks()) == (0, before)
        assert "bindings cancelled" in caplog.text


def test_the_parts_of_the_end_fit_into_the_whole_and_that_into_the_programs() -> None:
    bind_s = BindTimes().total_s
    assert bind_s < REQUESTS_DRAIN_S
    assert bind_s < BINDS_DRAIN_S
    assert REQUESTS_DRAIN_S + BINDS_DRAIN_S + EVENTS_DRAIN_S < DRAIN_S
    # Giving the Lease up takes a read and a write after that.
    assert DRAIN_S + 2 * ElectionSettings().lease_retry < STOP_DEADLINE_S
