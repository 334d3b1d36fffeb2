"""Who holds what, from the kubelet's checkpoint in each of its forms."""

import json
from pathlib import Path

import pytest

from gcushare.core.errors import DeviceError
from gcushare.device_plugin.kubelet.checkpoint import read_checkpoint
from gcushare.device_plugin.pods.allocations import ForeignHolding, KubeletAllocations
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import device_ids

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
    path = checkpoint(tmp_path, entry("a", {"-1": ["x"]}, resource="nvidia.com/gpu"), entry("b", None))
    record = read_checkpoint(path, RESOURCE, WHOLE)
    assert (record.memory, record.foreign) == ({}, [])


def test_a_checkpoint_without_entries_is_a_true_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(checkpoint(tmp_path), RESOURCE, WHOLE).memory == {}


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
    assert shown.whole_cards == {3, 4, 5}


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
