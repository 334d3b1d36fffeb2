"""How the plugin finds out that another one serves its whole-card resource."""

import json
from pathlib import Path

import pytest

from gcushare.device_plugin.rival import RivalWatch

RESOURCE = "nvidia.com/gpu"


def checkpoint(folder: Path, *ids: str, resource: str = RESOURCE) -> Path:
    path = folder / "kubelet_internal_checkpoint"
    data = {"PodDeviceEntries": None, "RegisteredDevices": {resource: list(ids)}}
    path.write_text(json.dumps({"Data": data, "Checksum": 1}))
    return path


@pytest.mark.parametrize("usable", [8, None])
def test_ids_of_another_layout_that_are_usable_are_another_plugin(tmp_path: Path, usable: int | None) -> None:
    told: list[str] = []
    watch = RivalWatch(RESOURCE, checkpoint(tmp_path, "GPU-1", "GPU-2"), lambda: usable, told.append)
    found = watch.find()
    assert (
        "another plugin serves nvidia.com/gpu on this node: the kubelet was told 2 device ids such as 'GPU-1'" in found
    )
    assert "--mode memory" in found
    assert watch.find() == found
    assert told == [found]


def test_a_plugin_that_is_gone_is_no_rival_though_the_kubelet_remembers_its_ids(tmp_path: Path) -> None:
    assert RivalWatch(RESOURCE, checkpoint(tmp_path, "GPU-1"), lambda: 0, lambda _: None).find() == ""


def test_our_own_ids_and_other_resources_are_no_rival(tmp_path: Path) -> None:
    assert RivalWatch(RESOURCE, checkpoint(tmp_path, "card-0"), lambda: 8, lambda _: None).find() == ""
    path = checkpoint(tmp_path, "GPU-1", resource="example.com/gpu")
    assert RivalWatch(RESOURCE, path, lambda: 8, lambda _: None).find() == ""


def test_a_node_without_a_checkpoint_has_no_other_plugin(tmp_path: Path) -> None:
    assert RivalWatch(RESOURCE, tmp_path / "none", lambda: 8, lambda _: None).find() == ""


def test_one_that_comes_back_is_told_again(tmp_path: Path) -> None:
    told: list[str] = []
    usable = [8, 0, 8]
    watch = RivalWatch(RESOURCE, checkpoint(tmp_path, "GPU-1"), lambda: usable.pop(0), told.append)
    assert [bool(watch.find()) for _ in range(3)] == [True, False, True]
    assert len(told) == 2
