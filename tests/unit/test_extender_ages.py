"""A fact read at a later point than a list's or an event's stays until the watch comes to that point."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gcushare.cluster.watch_handlers import PodHandler
from gcushare.core.errors import Refused
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.objects import Pod
from tests.extender_objects import a_node, a_pod, on_card, request_of, state_of
from tests.unit.extender_binds import Rig
from tests.unit.extender_cluster import Mishap


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


async def test_the_end_of_a_list_that_is_older_than_a_binding_gives_its_card_to_no_one() -> None:
    """The list began before pod a was made; its Binding's answer was lost, and reading showed it bound."""
    rig = Rig(cards=(16,))
    sink = PodHandler([rig.state])
    older = str(rig.cluster.version)
    for name in ("a", "b"):
        rig.cluster.put(a_pod(name, 12))
    rig.cluster.mishaps.append(Mishap.LOST_AFTER)
    await rig.bind("a")
    sink.retained(frozenset(), older)

    with pytest.raises(Refused, match="needs 12 GB in one card"):
        await rig.bind("b")
    assert rig.recorded() == {("node-1", "0"): 12}


async def test_what_settling_read_outlives_an_older_list_as_well() -> None:
    rig = Rig(cards=(16,))
    older = str(rig.cluster.version)
    rig.cluster.put(a_pod("a", 12))
    await rig.bind("a")
    await rig.service.confirm(older_than_s=0.0)
    assert not rig.state.ledger.reserved
    PodHandler([rig.state]).retained(frozenset(), older)

    assert rig.used() == [12]


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
