"""Pods that share no card with each other on their node: which ids they get, and what is said where they share one."""

from __future__ import annotations

from pathlib import Path

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
    pod,
    recorded,
    shown,
    store_of,
    with_annotations,
    with_more,
)
from tests.unit.test_plugin_allocator import ask, chosen, units


def replica(name: str, on: int, *, value: str = "web", assigned: bool = False) -> Pod:
    return with_more(pod(name, 4, card=on, assigned=assigned), {APART: "app", RECORDED_APART: f"app={value}"})


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = make_rig(tmp_path, mode=GrantMode.BOTH)
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
