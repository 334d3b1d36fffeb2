"""Memory and whole cards on one node, and pods that share no card: what is counted, sent and said."""

from __future__ import annotations

import pytest

from gcushare.core.errors import Refused
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.wire.annotations import APART, CARDS, CARDS_LINKED, RECORDED_APART
from gcushare.wire.kubelet.plugin_messages import DeviceIds, device_ids
from gcushare.wire.objects import Pod
from tests.builders import card
from tests.unit.node_agent_rig import Rig, make_rig
from tests.unit.plugin_pods import (
    MEMORY,
    UNITS,
    UUIDS,
    bound,
    in_use,
    pod,
    reconcile,
    recorded,
    shown,
    store_of,
    whole_pod,
    with_annotations,
    with_more,
    written,
)
from tests.unit.test_plugin_allocator import ask, chosen, units


def test_a_card_is_in_use_from_the_moment_it_is_handed_out_until_its_pod_has_ended() -> None:
    store = store_of(pod("a", 4), whole_pod("w", cards="1"))
    assert in_use(store) == (set(), set())
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0)
    store.on_allocate("uid-w", "c0", {1: 1}, 0.0, whole=True)
    assert in_use(store) == ({0}, {1})
    reconcile(store, {"d/a": {"c0": {0: 4}}}, {"d/w": {"c0": {1: 1}}})
    assert in_use(store) == ({0}, {1})
    store.pod_deleted("uid-a", is_over=True)
    store.pod_deleted("uid-w", is_over=True)
    assert in_use(store) == (set(), set()), "the kubelet shows a pod that has ended until the next admission"


def test_a_unit_of_memory_and_a_whole_card_of_the_same_number_are_never_taken_for_each_other() -> None:
    store = store_of(pod("a", 1, card=0), whole_pod("w", cards="0"))
    store.on_allocate("uid-a", "c0", {0: 1}, 0.0)
    reconcile(store, {}, {"d/w": {"c0": {0: 1}}})
    assert store.pending_allocations == 1, "the whole card that is shown is not the unit that was handed out"
    assert written(store) == {"w": ((0,), ())}
    reconcile(store, {"d/a": {"c0": {0: 1}}}, {"d/w": {"c0": {0: 1}}})
    assert store.pending_allocations == 0


def test_what_somebody_unknown_holds_is_in_use_until_the_kubelets_record_drops_it() -> None:
    store = store_of(memory={"d/young": {"c0": {0: 4}}}, whole={"d/other": {"c0": {2: 1}}})
    store.pod_applied(whole_pod("other", cards="2"))
    store.pods_retained({"uid-other"})
    assert in_use(store) == ({0}, {2}), "a list may be older than a pod that the kubelet has admitted"
    reconcile(store, {}, {"d/other": {"c0": {2: 1}}})
    assert in_use(store) == (set(), {2})


def test_before_the_kubelets_record_was_ever_read_marked_records_count() -> None:
    store = store_of(whole_pod("w", cards="1", assigned=True), pod("a", 4, card=2, assigned=True), pod("b", 4, card=3))
    assert in_use(store) == ({2}, {1})
    assert store.users_of(1, whole=True) == ["d/w"]
    reconcile(store, {}, {})
    assert in_use(store) == (set(), set())


def test_whole_pods_of_equal_size_that_changed_places_are_both_recorded_truly() -> None:
    store = store_of(whole_pod("a", cards="0"), whole_pod("b", cards="1"), whole={"d/a": {"c0": {1: 1}}})
    assert {c.pod.name: c.card_indexes for c in store.candidates(whole=True)} == {"b": (0,)}
    assert store.promised_whole() == {0: "uid-b"}


# What the kubelet is sent


def test_a_sick_card_is_unhealthy_in_both_lists_and_a_cordoned_one_if_no_one_holds_it() -> None:
    rig = make_rig(mode=GrantMode.BOTH)
    rig.hold()
    rig.see(4, 4, sick={1: "off the bus"})
    assert (len(rig.healthy()), rig.healthy(whole=True)) == (4, ["card-0"])
    rig.node(cordon="0")
    assert (rig.healthy(), rig.healthy(whole=True)) == ([], [])


def test_with_mode_whole_only_whole_cards_are_listed_whatever_the_unit() -> None:
    rig = make_rig(unit="MiB", mode=GrantMode.WHOLE)
    rig.see(*[64] * 8)
    assert rig.agent.problem == "", "524,288 units would not fit a message, and none is sent"
    assert (rig.parts.memory_devices.message, len(rig.healthy(whole=True))) == (b"", 8)


def test_with_mode_memory_a_card_that_a_pod_still_holds_whole_stays_closed() -> None:
    rig = make_rig()
    rig.hold(old=["card-0"])
    rig.see(4, 4)
    assert rig.listed() == (8, 4)


def replica(name: str, on: int, *, value: str = "web", assigned: bool = False) -> Pod:
    return with_more(pod(name, 4, card=on, assigned=assigned), {APART: "app", RECORDED_APART: f"app={value}"})


@pytest.fixture
def rig() -> Rig:
    made = make_rig(mode=GrantMode.BOTH)
    made.see(16, 16, 16)
    return made


async def test_no_unit_is_preferred_or_given_of_a_card_that_another_of_the_group_holds(rig: Rig) -> None:
    rig.agent.pod_applied(replica("a", 0, assigned=True))
    rig.parts.store.on_kubelet_read(shown({"d/a": {"c0": {0: 4}}}))
    rig.agent.pod_applied(replica("b", 0))
    assert chosen(await rig.parts.allocator.prefer(ask(4, units(0, 12, start=4), units(1, 16)))) == {1: 4}
    with pytest.raises(Refused, match=r"^no card of this node has 4 free units"):
        await rig.parts.allocator.prefer(ask(4, units(0, 12, start=4)))
    with pytest.raises(Refused, match=r"^card 0 was taken, which the annotations of pod d/b exclude: "):
        await rig.parts.allocator.allocate(device_ids(units(0, 4, start=4)))


async def test_replicas_that_start_together_each_get_a_card_of_their_own_in_any_order(rig: Rig) -> None:
    for number in range(3):
        rig.agent.pod_applied(replica(f"p{number}", number))
    given: list[int] = []
    for _ in range(3):
        free = [units(index, 16) for index in range(3) if index not in given]
        entries = await rig.parts.allocator.prefer(ask(4, *free))
        await rig.parts.allocator.allocate(DeviceIds(b"".join(entries)))
        given += chosen(entries)
    assert sorted(given) == [0, 1, 2]


async def test_the_kubelets_word_counts_and_an_event_names_both_pods(rig: Rig) -> None:
    for each in (replica("a", 0, assigned=True), replica("b", 1), replica("other", 1, value="api")):
        rig.agent.pod_applied(each)
    rig.parts.store.on_kubelet_read(shown({"d/a": {"c0": {0: 4}}, "d/b": {"c0": {0: 4}}, "d/other": {"c0": {0: 4}}}))
    for write in rig.parts.store.writes(UUIDS, UNITS, 1):
        rig.agent.on_record_written(write)
    said = [text for _, reason, text in rig.heard.pods if reason == "NotApart"]
    assert said == [
        "the kubelet gave card 0, which d/a holds: both have app=web and gcushare.io/apart; delete one of them to have "
        "it placed again"
    ]


def test_a_record_keeps_the_group_and_one_that_was_removed_or_forged_is_written_again() -> None:
    right = replica("a", 0, assigned=True)
    for first, now, wanted in (
        (right, {RECORDED_APART: None}, "app=web"),
        (right, {RECORDED_APART: "app=api"}, "app=web"),
        (pod("a", 4, assigned=True), {RECORDED_APART: "app=web"}, ""),
    ):
        store = store_of(first)
        store.on_kubelet_read(shown({"d/a": {"c0": {0: 4}}}))
        changed = {key: value for key, value in (first.metadata.annotations | now).items() if value is not None}
        store.pod_applied(with_annotations(first, changed))
        (write,) = store.writes(UUIDS, UNITS, 1)
        assert write.annotations[RECORDED_APART] == wanted


async def test_a_pod_for_linked_cards_whose_own_are_taken_gets_others_that_are_linked_or_none(rig: Rig) -> None:
    rig.cards(*(card(index, link="x" if index in (1, 3) else "") for index in range(4)))
    asked = {CARDS: "2", CARDS_LINKED: "true"}
    rig.agent.pod_applied(bound("a", {MEMORY: 8}, annotations=recorded("0,2") | asked))
    free = [units(0, 3), units(1, 16), units(2, 16), units(3, 16)]
    assert chosen(await rig.parts.allocator.prefer(ask(8, *free))) == {1: 4, 3: 4}
    with pytest.raises(Refused, match="no card of this node has 4 free units"):
        await rig.parts.allocator.prefer(ask(8, *free[:3]))
    with pytest.raises(Refused, match=r"^cards 1,2 were taken, which are not linked with each other"):
        await rig.parts.allocator.allocate(device_ids([*units(1, 4), *units(2, 4)]))
