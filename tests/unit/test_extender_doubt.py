"""bind, asked again or answered late: what may still come true stays held, and what was read last counts."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from gcushare.cluster.watch_handlers import PodHandler
from gcushare.core.errors import ForbiddenError, Refused, RetryableError
from gcushare.scheduler_extender.leadership import NotLeader
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.annotations import encode_record
from gcushare.wire.objects import Condition, Pod, PodStatus
from tests.extender_objects import a_node, a_pod, on_card, pod_document, request_of, state_of
from tests.unit.extender_binds import ALWAYS, Rig
from tests.unit.extender_cluster import Mishap
from tests.unit.extender_desk import Caller


@pytest.mark.parametrize("done", [True, False])
async def test_asked_again_without_reaching_the_server_the_units_stay_held(done: bool) -> None:
    rig = Rig(a_pod("a", 12), a_pod("b", 12))
    await rig.lose(done=done)
    rig.cluster.mishaps.extend([Mishap.NOT_SENT] * ALWAYS)
    with pytest.raises(RetryableError):
        await rig.bind("a")
    rig.cluster.mishaps.clear()
    assert rig.used() == [12, 0]

    await rig.bind("b")
    rig.cluster.arrive()
    rig.check_truth()


async def test_filter_names_the_node_that_is_reserved_for_a_pod_whose_binding_got_no_answer() -> None:
    rig = Rig(a_pod("a", 12), cards=(16,))
    await rig.lose("a", "node-1", done=False)
    caller = Caller(rig.cluster, rig.state, seen=False)
    assert (await caller.filter(pod_document("a", 12), "node-1", "node-2"))["NodeNames"] == ["node-1"]


async def test_asked_for_another_node_the_pod_is_read_first() -> None:
    rig = Rig(a_pod("a", 12))
    await rig.lose(done=True)
    with pytest.raises(Refused, match="bound to node 'node-1' already"):
        await rig.bind("a", "node-2")

    assert (rig.used("node-1"), rig.used("node-2")) == ([12, 0], [0, 0])
    rig.check_truth()


async def test_asked_for_another_node_while_nothing_can_be_read_all_stays_as_it_is() -> None:
    rig = Rig(a_pod("a", 12), a_pod("b", 12))
    await rig.lose(done=True)
    rig.cluster.read_mishaps.append(Mishap.FORBIDDEN)
    with pytest.raises(ForbiddenError):
        await rig.bind("a", "node-2")

    assert rig.used() == [12, 0]
    await rig.bind("b")
    rig.check_truth()


async def test_asked_for_another_node_without_room_the_first_stays_held() -> None:
    rig = Rig(a_pod("a", 12), a_pod("b", 12), a_pod("x", 12), a_pod("y", 12))
    await rig.bind("x", "node-2")
    await rig.bind("y", "node-2")
    await rig.lose(done=False)
    with pytest.raises(Refused, match="needs 12 GB in one card"):
        await rig.bind("a", "node-2")
    rig.cluster.arrive()
    await rig.bind("b")

    rig.check_truth()


async def test_two_nodes_are_held_for_a_pod_that_may_turn_out_on_either_until_that_is_known() -> None:
    rig = Rig(a_pod("a", 12))
    await rig.lose(node="node-1", done=False)
    rig.cluster.mishaps.extend([Mishap.NOT_SENT] * ALWAYS)
    with pytest.raises(RetryableError):
        await rig.bind("a", "node-2")
    assert (rig.used("node-1"), rig.used("node-2")) == ([12, 0], [0, 0]), "the second was never sent"

    rig.cluster.mishaps.clear()
    await rig.lose(node="node-2", done=False)
    assert (rig.used("node-1"), rig.used("node-2")) == ([12, 0], [12, 0])

    rig.cluster.arrive()
    await rig.service.confirm(older_than_s=0.0)
    assert (rig.used("node-1"), rig.used("node-2")) == ([12, 0], [0, 0]), "the first came first"
    rig.check_truth()


async def test_a_read_that_is_forbidden_leaves_the_doubt() -> None:
    rig = Rig(a_pod("a", 12), a_pod("b", 12))
    rig.cluster.mishaps.extend([Mishap.LOST_AFTER, *[Mishap.NOT_SENT] * ALWAYS])
    rig.cluster.read_mishaps.append(Mishap.FORBIDDEN)
    with pytest.raises(RetryableError):
        await rig.bind("a")
    rig.cluster.mishaps.clear()
    assert rig.used() == [12, 0]

    await rig.bind("b")
    rig.check_truth()


async def test_an_error_that_no_one_foresaw_is_settled_like_any_doubt() -> None:
    rig = Rig(a_pod("a", 12))
    rig.cluster.mishaps.append(Mishap.BROKEN)
    with pytest.raises(RuntimeError):
        await rig.bind("a")
    assert rig.used() == [12, 0]
    await rig.service.confirm(older_than_s=0.0)

    assert rig.used() == [0, 0]
    rig.check_truth()


@pytest.mark.parametrize("is_gone", [True, False], ids=["deleted", "corrected"])
@pytest.mark.parametrize("settles", [True, False], ids=["settling", "binding"])
async def test_a_read_that_is_answered_late_does_not_lead_back(*, settles: bool, is_gone: bool) -> None:
    """The watch has shown a later state while the answer was on its way."""
    rig = Rig(a_pod("a", 4))
    if settles:
        await rig.bind()
    else:
        rig.cluster.mishaps.append(Mishap.LOST_AFTER)
    rig.cluster.reads_travel = asyncio.Event()
    reading = asyncio.create_task(rig.service.confirm(older_than_s=0.0) if settles else rig.bind())
    while not rig.cluster.reads:  # noqa: ASYNC110 - a few turns of the loop
        await asyncio.sleep(0)
    rig.cluster.tell(rig.state)
    if is_gone:
        rig.cluster.pods.clear()
    else:
        rig.cluster.put(a_pod("a", 4, node="node-1", record=on_card(1, 4)))
    rig.cluster.tell(rig.state)
    rig.cluster.reads_travel.set()
    await reading

    assert rig.used() == ([0, 0] if is_gone else [0, 4])


async def test_a_pod_that_went_while_no_one_watched_waits_no_more() -> None:
    rig = Rig(a_pod("a", 4))
    await rig.bind()
    rig.cluster.pods.clear()
    rig.state.pods_retained(frozenset(), "500")
    await rig.service.confirm(older_than_s=0.0)

    assert (rig.used(), dict(rig.state.waiting)) == ([0, 0], {})


@pytest.mark.parametrize("is_late", [True, False], ids=["the list came first", "the answer came first"])
async def test_a_pod_that_went_while_it_was_bound_and_no_one_watched_waits_no_more(is_late: bool) -> None:
    """A list says that it is gone, and no event of it will come."""
    rig = Rig(a_pod("a", 4))
    binding, arrives = await rig.begin()
    rig.cluster.pods.clear()
    if is_late:
        rig.state.pods_retained(frozenset(), "500")
        assert (rig.used(), dict(rig.state.waiting)) == ([4, 0], {}), "what the Binding may still do stays counted"
    arrives.set()
    with pytest.raises(Refused, match="does not exist any more"):
        await binding

    assert (rig.used(), dict(rig.state.waiting)) == ([0, 0], {})


async def test_a_call_under_another_name_does_not_join_a_binding() -> None:
    rig = Rig(a_pod("a", 4))
    results = await asyncio.gather(rig.bind("a"), rig.bind("b", uid="uid-a"), return_exceptions=True)
    assert results[0] is None
    assert isinstance(results[1], Refused)


class TestVersions:
    """A Binding is for the pod as it stood when it was decided on: one that comes late changes no other."""

    @staticmethod
    def refused_by_the_scheduler(rig: Rig) -> None:
        """As kube-scheduler leaves a pod whose bind came to nothing: it writes a condition."""
        why = Condition(type="PodScheduled", status="False", reason="SchedulerError", message="deadline exceeded")
        status = PodStatus(phase="Pending", conditions=(why,))
        rig.cluster.put(replace(rig.cluster.pods["default", "a"], status=status))

    async def test_a_replica_that_was_paused_past_its_lease_binds_nothing(self) -> None:
        """It stood still with the Binding ready to leave; the scheduler gave up, the next leader gave the card away."""
        rig = Rig(a_pod("a", 12), a_pod("b", 12), cards=(16,))
        binding, resumed = await rig.begin()
        rig.office.is_leader = False
        self.refused_by_the_scheduler(rig)
        record = encode_record(rig.state.vendor, on_card(0, 12))
        rig.cluster.put(rig.cluster.bound(rig.cluster.pods["default", "b"], "node-1", record))
        resumed.set()
        with pytest.raises(NotLeader):
            await binding

        assert rig.recorded() == {("node-1", "0"): 12}
        assert rig.used() == [0]

    @pytest.mark.parametrize(("seen_by", "bindings"), [("no one", 2), ("filter", 1), ("the watch", 1)], ids=str)
    async def test_a_pod_that_has_changed_is_bound_at_its_newest_version(self, seen_by: str, bindings: int) -> None:
        rig = Rig(a_pod("a", 4))
        older = rig.cluster.pods["default", "a"]
        rig.cluster.put(older)
        if seen_by == "filter":
            rig.state.remember(request_of(rig.cluster.pods["default", "a"]))
        elif seen_by == "the watch":
            rig.cluster.tell(rig.state)
            rig.state.remember(request_of(older))
        await rig.bind()

        assert (len(rig.cluster.bindings), rig.cluster.reads) == (bindings, bindings - 1)
        assert rig.service.sender.conflicts == bindings - 1
        rig.check_truth()

    async def test_a_binding_that_arrives_late_changes_no_pod_that_was_written_since(self) -> None:
        rig = Rig(a_pod("a", 12))
        await rig.lose()
        self.refused_by_the_scheduler(rig)
        rig.cluster.arrive()

        assert rig.recorded() == {}


def at(version: str, pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, resource_version=version))


def on(card: int, version: str, *, phase: str = "Running") -> Pod:
    return at(version, a_pod("a", 12, node="node-1", record=on_card(card, 12), phase=phase))


def reading(version: str) -> tuple[VendorState, PodHandler]:
    """A state that has read pod ``a`` bound with card 0 at a version, and the watch's way into it."""
    state = state_of(a_node("node-1", 16, 16))
    state.on_pod_read(on(0, version), 0.0)
    return state, PodHandler([state])


def used(state: VendorState) -> list[int]:
    return [card.used for card in state.ledger.nodes["node-1"].cards.values()]


@pytest.mark.parametrize("end", ["deleted", "missing in a list"])
def test_a_read_that_is_answered_after_the_pods_end_brings_nothing_back(end: str) -> None:
    state = state_of(a_node("node-1", 16, 16))
    watch = PodHandler([state])
    watch.applied(on(0, "5"))
    if end == "deleted":
        watch.deleted(on(0, "6"))
    else:
        watch.retained(frozenset(), "6")
    state.on_pod_read(on(0, "5"), 0.0)
    assert used(state) == [0, 0]
    assert state.bound == {}
    state.remember(request_of(a_pod("a", 4)))
    assert state.find_waiting("uid-a") is None
    watch.applied(on(0, "7"))
    assert used(state) == [12, 0], "the server's store was restored"


@pytest.mark.parametrize(
    ("version", "left"),
    [
        pytest.param("99", [12, 0], id="older"),
        pytest.param("105", [0, 0], id="as old"),
        pytest.param("1000", [0, 0], id="newer, with more digits"),
        pytest.param("word", [12, 0], id="opaque"),
    ],
)
def test_a_list_without_the_pod_ends_it_only_if_it_is_not_older(version: str, left: list[int]) -> None:
    state, sink = reading("105")
    sink.retained(frozenset(), version)

    assert used(state) == left
    assert len(state.newer_reads.uids) == bool(left[0])


def test_a_page_that_is_older_takes_no_card_back() -> None:
    """The plugin corrected the record to card 0 before the pod was read, after the list's first page was cut."""
    state, sink = reading("105")
    sink.applied(on(1, "103"))
    assert used(state) == [12, 0]
    sink.applied(at("102", a_pod("a", 12)))
    sink.retained(frozenset({"uid-a"}), "104")
    assert used(state) == [12, 0]

    sink.applied(on(1, "106"))
    assert used(state) == [0, 12]


def test_a_late_watch_changes_nothing_until_it_comes_to_what_was_read() -> None:
    state, sink = reading("105")
    sink.applied(at("101", a_pod("a", 12)))
    sink.applied(on(1, "103"))
    assert (used(state), len(state.newer_reads.uids)) == ([12, 0], 1)

    sink.applied(on(0, "105"))
    assert (used(state), len(state.newer_reads.uids)) == ([12, 0], 0)
    sink.retained(frozenset(), "104")
    assert used(state) == [0, 0], "the watch holds it now, and says that it is gone"


def test_a_pod_that_was_read_at_its_end_holds_nothing_again() -> None:
    state, sink = reading("105")
    state.on_pod_read(on(0, "109", phase="Succeeded"), 1.0)
    sink.applied(on(0, "107"))

    assert used(state) == [0, 0]
    sink.retained(frozenset(), "112")
    assert len(state.newer_reads.uids) == 0


class TestReadAgain:
    """What the watch does not confirm in time is read again."""

    @staticmethod
    async def ahead() -> Rig:
        rig = Rig(a_pod("a", 12))
        rig.cluster.mishaps.append(Mishap.LOST_AFTER)
        await rig.bind("a")
        assert len(rig.state.newer_reads.uids) == 1
        return rig

    @pytest.mark.parametrize(
        ("found", "left"),
        [
            pytest.param("it is gone", ([0, 0], 0), id="gone"),
            pytest.param("it stands", ([12, 0], 1), id="as it was"),
            pytest.param("the read fails", ([12, 0], 1), id="not read"),
            pytest.param("a store of before the Binding", ([0, 0], 0), id="restored"),
        ],
    )
    async def test_what_is_read_counts(self, found: str, left: tuple[list[int], int]) -> None:
        rig = await self.ahead()
        match found:
            case "it is gone":
                rig.cluster.pods.clear()
            case "the read fails":
                rig.cluster.read_mishaps.append(Mishap.LOST_BEFORE)
            case "a store of before the Binding":
                rig.cluster.pods["default", "a"] = at("3", a_pod("a", 12))
        await rig.service.confirm(older_than_s=0.0)

        assert (rig.used(), len(rig.state.newer_reads.uids)) == left
        assert rig.state.waiting.keys() == ({"uid-a"} if found == "a store of before the Binding" else set())

    async def test_the_watch_counts_again_where_it_reported_the_same(self) -> None:
        """A list passed over the version that was read, where versions cannot be compared."""
        rig = await self.ahead()
        corrected = at("word", a_pod("a", 12, node="node-1", record=on_card(1, 12)))
        rig.cluster.pods["default", "a"] = corrected
        rig.state.pod_applied(corrected)
        assert rig.used() == [12, 0]
        await rig.service.confirm(older_than_s=0.0)

        assert (rig.used(), len(rig.state.newer_reads.uids)) == ([0, 12], 0)
