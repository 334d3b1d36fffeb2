"""Who holds what by the kubelet's checkpoint, and which card a number means when the plugin starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gcushare.core.cards import Inventory, InventoryCard
from gcushare.core.errors import DeviceError
from gcushare.core.units import parse_memory_unit
from gcushare.device_plugin.kubelet.checkpoint import read_checkpoint
from gcushare.device_plugin.node.held_cards import find_held_cards
from gcushare.device_plugin.pods.allocations import CHECKPOINT, ForeignHolding, KubeletAllocations
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.grant_form import read_given
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import CARD_UUID
from gcushare.wire.kubelet.device_ids import device_ids_of_card, encode_whole_card_id
from gcushare.wire.kubelet.plugin_messages import device_ids
from gcushare.wire.protos import deviceplugin_pb2 as pb
from tests.extender_objects import a_pod, on_card
from tests.unit.plugin_pods import reconcile, with_more

RESOURCE, WHOLE = "enflame.com/gcu-memory", "enflame.com/gcu"


def entry(uid: str, ids: object, *, container: str = "c0", resource: str = RESOURCE) -> dict[str, object]:
    return {"PodUID": uid, "ContainerName": container, "ResourceName": resource, "DeviceIDs": ids, "AllocResp": "Cg=="}


def checkpoint(tmp_path: Path, *entries: object) -> Path:
    path = tmp_path / "kubelet_internal_checkpoint"
    document = {"Data": {"PodDeviceEntries": list(entries) or None, "RegisteredDevices": {}}, "Checksum": 1}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param({"-1": device_ids_of_card(2, 3)}, id="by NUMA node"),
        pytest.param({"0": device_ids_of_card(2, 2), "1": device_ids_of_card(2, 3)[2:]}, id="of two NUMA nodes"),
        pytest.param(device_ids_of_card(2, 3), id="a list, before 1.20"),
    ],
)
def test_ids_are_counted_by_pod_container_and_card(tmp_path: Path, ids: object) -> None:
    record = read_checkpoint(checkpoint(tmp_path, entry("uid-a", ids)), RESOURCE, WHOLE)
    assert record.memory == {"uid-a": {"c0": {2: 3}}}
    assert record.held_ids(2) == frozenset(device_ids_of_card(2, 3))
    assert record.held_ids(1) == frozenset()


def test_other_resources_and_empty_entries_are_left_out(tmp_path: Path) -> None:
    for entries in ([entry("a", {"-1": ["x"]}, resource="nvidia.com/gpu"), entry("b", None)], []):
        record = read_checkpoint(checkpoint(tmp_path, *entries), RESOURCE, WHOLE)
        assert (record.memory, record.foreign) == ({}, [])


def test_ids_of_another_layout_are_counted_apart(tmp_path: Path) -> None:
    ids = {"-1": ["GCU-7-_-0", "GCU-7-_-1", *device_ids_of_card(0, 1)]}
    record = read_checkpoint(checkpoint(tmp_path, entry("uid-a", ids)), RESOURCE, WHOLE)
    assert record.memory == {"uid-a": {"c0": {0: 1}}}
    ((pod, container, count, example),) = [(f.pod, f.container, f.ids, f.example) for f in record.foreign]
    assert (pod, container, count, example) == ("uid-a", "c0", 2, "GCU-7-_-0")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"Data": 1}', '{"Data": {"PodDeviceEntries": [{"PodUID": 1}]}}'])
def test_what_is_no_checkpoint_is_named_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubelet_internal_checkpoint"
    path.write_text(text)
    with pytest.raises(DeviceError, match="kubelet_internal_checkpoint cannot be read"):
        read_checkpoint(path, RESOURCE, WHOLE)


def test_whole_cards_are_counted_apart_from_ids_of_another_layout() -> None:
    shown = KubeletAllocations()
    shown.add_whole("d/a", "c0", ["card-3", "GPU-1", "GPU-2"])
    shown.add_whole("d/a", "c1", ["card-4"])
    shown.add_whole("d/b", "c0", ["card-5"])
    assert shown.whole == {"d/a": {"c0": {3: 1}, "c1": {4: 1}}, "d/b": {"c0": {5: 1}}}
    assert shown.foreign == [ForeignHolding("d/a", "c0", 2, "GPU-1")]
    assert shown.cards(whole=True, without=()) == {3, 4, 5}


def test_a_checkpoint_completes_what_podresources_hides() -> None:
    shown, saved = KubeletAllocations("podresources"), KubeletAllocations("checkpoint")
    shown.add("d/a", "c0", device_ids(device_ids_of_card(0, 2)))
    shown.add("d/a", "c1", device_ids(device_ids_of_card(0, 3)[2:]))
    assert shown.memory == {"d/a": {"c0": {0: 2}, "c1": {0: 1}}}
    saved.add("d/a", "init", device_ids(device_ids_of_card(0, 6)[3:]))
    saved.add("u", "init", device_ids(device_ids_of_card(0, 8)[6:]))
    shown.add_missing(saved, ["d/a", "u", "unknown"])
    assert shown.held_ids(0) == {*device_ids_of_card(0, 3), *device_ids_of_card(0, 8)[6:]}
    saved.add_whole("w1", "c0", ["card-1"])
    saved.add_whole("w2", "c0", ["card-2"])
    shown.add_missing(saved, ["d/a", "w1", "w2"])
    assert shown.whole == {"w1": {"c0": {1: 1}}, "w2": {"c0": {2: 1}}}
    assert shown.memory == {"d/a": {"c0": {0: 2}, "c1": {0: 1}}, "u": {"init": {0: 2}}}


def test_containers_that_are_shown_for_the_first_time_are_named_once_each() -> None:
    before, now = KubeletAllocations(), KubeletAllocations()
    before.add("d/a", "c0", device_ids(device_ids_of_card(0, 1)))
    for pod, container in (("uid-a", "c0"), ("uid-a", "c1"), ("d/a", "c1"), ("d/b", "c0")):
        now.add(pod, container, device_ids(device_ids_of_card(0, 1)))
    now.add_whole("uid-a", "c0", ["card-1"])
    new = [("d/a", "c1", False), ("d/b", "c0", False), ("uid-a", "c0", True)]
    assert now.not_in(before, {"uid-a": "d/a"}) == new


FORMER = Inventory(
    unit=parse_memory_unit("GiB"),
    cards=tuple(InventoryCard(index=i, uuid=f"U-{i}", memory_bytes=16 << 30, units=16) for i in range(3)),
)


def answer(uuid: str, *, index: str = "", cdi: bool = False) -> bytes:
    """What a container was given; ``index``: as shared memory of these cards."""
    response = pb.ContainerAllocateResponse()
    if cdi:
        response.envs[ALIYUN.environment.visible] = "void"
        response.cdi_devices.add(name=f"{ALIYUN.cdi_kind}={uuid}")
    else:
        response.envs[ALIYUN.environment.visible] = uuid
    if index:
        response.envs[ALIYUN.environment.card_index] = index
    return response.SerializeToString()


def store_with(*, assigned: bool = True) -> PodStore:
    """A pod that has 4 units of card 1, and whose record names another card, as its author may write it."""
    pod = a_pod("a", 4, vendor=ALIYUN, node="n", record=on_card(1, 4))
    forged = {CARD_UUID: "U-forged", ALIYUN.record.assigned: str(assigned).lower()}
    store = listed()
    store.pod_applied(with_more(pod, forged))
    return store


def listed() -> PodStore:
    """A store whose pods the API server has listed, before the first of them came."""
    store = PodStore(ALIYUN)
    store.pods_retained(())
    return store


def kept(pod: str, body: bytes, card: int = 1) -> KubeletAllocations:
    found = KubeletAllocations(CHECKPOINT)
    found.add(pod, "main", device_ids(device_ids_of_card(card, 16)[:4]), body)
    return found


@pytest.mark.parametrize("cdi", [False, True], ids=["by variable", "by CDI name"])
def test_the_kubelets_stored_answer_counts_before_inventory_and_record(cdi: bool) -> None:
    store = store_with()
    reconcile(store, {"default/a": {"main": {1: 4}}})
    held = find_held_cards(store, kept("uid-a", answer("U-real", index="1", cdi=cdi)), ALIYUN, FORMER)
    assert {uuid: card.index for uuid, card in held.items()} == {"U-real": 1}


def test_the_answer_of_a_pod_that_ended_does_not_count_against_one_that_runs() -> None:
    store = store_with()
    reconcile(store, {"default/a": {"main": {1: 4}}})
    both = kept("uid-ended", answer("U-old", index="1"))
    both.add("uid-a", "main", device_ids(device_ids_of_card(1, 16)[:4]), answer("U-real", index="1"))
    assert list(find_held_cards(store, both, ALIYUN, FORMER)) == ["U-real"]


def test_the_answer_of_a_pod_that_ended_does_not_count_for_a_pod_that_waits() -> None:
    """It was bound to the card that the number means since, as the inventory says."""
    ended = kept("uid-ended", answer("U-old", index="1"))
    assert list(find_held_cards(store_with(assigned=False), ended, ALIYUN, FORMER)) == ["U-1"]


def test_a_number_that_no_pod_has_is_not_held_once_all_pods_are_known() -> None:
    ended = kept("uid-ended", answer("U-real", index="1"))
    assert find_held_cards(listed(), ended, ALIYUN, FORMER) == {}
    held = find_held_cards(PodStore(ALIYUN), ended, ALIYUN, FORMER)
    assert {uuid: card.index for uuid, card in held.items()} == {"U-real": 1, "U-0": 0, "U-2": 2}


def test_what_no_answer_says_is_read_from_the_inventory_and_last_from_the_record() -> None:
    bound, running = store_with(assigned=False), store_with()
    nothing = KubeletAllocations(CHECKPOINT)
    assert list(find_held_cards(bound, nothing, ALIYUN, FORMER)) == ["U-1"]
    assert list(find_held_cards(bound, nothing, ALIYUN, None)) == []
    assert list(find_held_cards(running, nothing, ALIYUN, None)) == ["U-forged"]


def test_an_answer_that_cannot_be_read_says_nothing() -> None:
    store = store_with()
    reconcile(store, {"default/a": {"main": {1: 4}}})
    assert list(find_held_cards(store, kept("uid-a", b"\xff\xff"), ALIYUN, FORMER)) == ["U-1"]


def test_whole_cards_are_read_in_the_order_of_their_numbers() -> None:
    store = PodStore(ALIYUN)
    reconcile(store, {}, {"default/w": {"main": {0: 1, 2: 1}}})
    found = KubeletAllocations(CHECKPOINT)
    found.add_whole("uid-w", "main", [encode_whole_card_id(2), encode_whole_card_id(0)], answer("U-x,U-y"))
    held = find_held_cards(store, found, ALIYUN, None)
    assert {uuid: card.index for uuid, card in held.items()} == {"U-x": 0, "U-y": 2}


@pytest.mark.parametrize("visible", ["", "all", "none", "void", "0", "U-a,U-b", "U-a,"])
def test_a_variable_that_names_no_uuid_for_each_card_says_nothing(visible: str) -> None:
    assert read_given(ALIYUN, [1], {ALIYUN.environment.visible: visible}, ()) == {}
    assert read_given(ENFLAME, [1], {ENFLAME.environment.visible: "1"}, ()) == {}
