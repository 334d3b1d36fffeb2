"""Who holds what, from the kubelet's checkpoint in each of its forms."""

import json
from pathlib import Path

import pytest

from gcushare.core.errors import DeviceError, RetryableError
from gcushare.device_plugin.kubelet.checkpoint import read_checkpoint
from gcushare.device_plugin.kubelet.podresources import PodResourcesReader
from gcushare.wire.kubelet.device_ids import device_ids_of_card

RESOURCE = "enflame.com/gcu-memory"


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
    record = read_checkpoint(checkpoint(tmp_path, entry("uid-a", ids)), RESOURCE)
    assert record.memory == {"uid-a": {"c0": {2: 3}}}
    assert record.held_ids(2) == frozenset(device_ids_of_card(2, 3))
    assert record.held_ids(1) == frozenset()


def test_other_resources_and_empty_entries_are_left_out(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, entry("a", {"-1": ["x"]}, resource="nvidia.com/gpu"), entry("b", None))
    record = read_checkpoint(path, RESOURCE)
    assert (record.memory, record.foreign) == ({}, [])


def test_a_checkpoint_without_entries_is_a_true_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(checkpoint(tmp_path), RESOURCE).memory == {}


def test_ids_of_another_layout_are_counted_apart(tmp_path: Path) -> None:
    ids = {"-1": ["GCU-7-_-0", "GCU-7-_-1", *device_ids_of_card(0, 1)]}
    record = read_checkpoint(checkpoint(tmp_path, entry("uid-a", ids)), RESOURCE)
    assert record.memory == {"uid-a": {"c0": {0: 1}}}
    ((pod, container, count, example),) = [(f.pod, f.container, f.ids, f.example) for f in record.foreign]
    assert (pod, container, count, example) == ("uid-a", "c0", 2, "GCU-7-_-0")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"Data": 1}', '{"Data": {"PodDeviceEntries": [{"PodUID": 1}]}}'])
def test_what_is_no_checkpoint_is_named_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubelet_internal_checkpoint"
    path.write_text(text)
    with pytest.raises(DeviceError, match="kubelet_internal_checkpoint cannot be read"):
        read_checkpoint(path, RESOURCE)


def reader(tmp_path: Path) -> PodResourcesReader:
    return PodResourcesReader(
        RESOURCE,
        pod_resources_socket=tmp_path / "kubelet.sock",
        checkpoint=tmp_path / "kubelet_internal_checkpoint",
        clock=lambda: 0.0,
    )


async def test_without_the_socket_the_checkpoint_is_read(tmp_path: Path) -> None:
    checkpoint(tmp_path, entry("uid-a", {"-1": device_ids_of_card(1, 2)}))
    record = await reader(tmp_path).fetch()
    assert (record.source, record.memory) == ("checkpoint", {"uid-a": {"c0": {1: 2}}})


async def test_with_neither_source_both_are_named(tmp_path: Path) -> None:
    with pytest.raises(RetryableError, match=r"podresources at .*kubelet.sock.*checkpoint .*cannot be read"):
        await reader(tmp_path).fetch()
