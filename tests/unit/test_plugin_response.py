"""What a container is given for its card by each strategy and vendor, and the CDI specification."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from gcushare.core.errors import DeviceError
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.device_plugin.allocation.response import AllocateResponses
from gcushare.node.cdi import CdiSpecFile, CdiSpecPublisher, cdi_name, cdi_spec
from gcushare.node.container_environment import Grant
from gcushare.node.node_settings import Strategy
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from tests.builders import card, inventory

OF_ENFLAME, OF_NVIDIA = (AllocateResponses(vendor, (Strategy.ENV,)) for vendor in (ENFLAME, ALIYUN))
GB = parse_memory_unit("1")


def test_enflames_container_is_reported_its_card_and_its_limits_in_units_and_bytes() -> None:
    answer = OF_ENFLAME.build(Grant((card(3),), 4, pod_units=6), GB)
    assert dict(answer.envs) == {
        "ENFLAME_VISIBLE_DEVICES": "3",
        "ENFLAME_COM_GCU_MEM_IDX": "3",
        "ENFLAME_COM_GCU_MEM_DEV": "16",
        "ENFLAME_COM_GCU_MEM_POD": "6",
        "ENFLAME_COM_GCU_MEM_CONTAINER": "4",
        "GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM": str(4 * GIB),
        "GCUSHARE_CARD_MEMORY_BYTES": str(16 * GIB),
    }
    assert not answer.devices
    assert not answer.cdi_devices


@pytest.mark.parametrize(("uuid", "visible"), [("GPU-8f4e", "GPU-8f4e"), ("", "1")])
def test_nvidias_container_sees_its_card_by_uuid_if_there_is_one(uuid: str, visible: str) -> None:
    grant = Grant((card(1, uuid=uuid),), 2048)
    variables = OF_NVIDIA.edits(grant, parse_memory_unit("MiB")).variables
    assert variables["NVIDIA_VISIBLE_DEVICES"] == visible
    assert variables["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    assert variables["GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM"] == str(2 * GIB)


@pytest.mark.parametrize(
    ("index", "size", "units", "pod_units", "unit", "expected"),
    [
        (0, 14, 5, 5, "GiB", "IDX=0 POD=5 CONTAINER=5 DEV=14"),
        (3, 15109, 2048, 2048, "MiB", "IDX=3 POD=2048 CONTAINER=2048 DEV=15109"),
        pytest.param(1, 31, 2, 9, "GiB", "IDX=1 POD=9 CONTAINER=2 DEV=31", id="one of several containers"),
    ],
)
def test_nvidias_container_has_upstreams_variables_and_no_other_of_these_names(
    index: int, size: int, units: int, pod_units: int, unit: str, expected: str
) -> None:
    grant = Grant((card(index, size),), units, pod_units=pod_units)
    variables = OF_NVIDIA.edits(grant, parse_memory_unit(unit)).variables
    shown = {name: value for name, value in variables.items() if "ALIYUN" in name}
    assert shown == {f"ALIYUN_COM_GPU_MEM_{name}": value for name, value in (w.split("=") for w in expected.split())}


def test_an_unknown_pods_limit_is_its_containers_own() -> None:
    variables = OF_ENFLAME.edits(Grant((card(0),), 4), GB).variables
    assert variables["ENFLAME_COM_GCU_MEM_POD"] == variables["ENFLAME_COM_GCU_MEM_CONTAINER"] == "4"


@pytest.mark.parametrize(
    ("vendor", "strategies", "visible", "devices", "cdi"),
    [
        pytest.param(ENFLAME, (Strategy.ENV,), "2", [], [], id="env"),
        pytest.param(ENFLAME, (Strategy.DEVICES,), None, ["/dev/gcu2", "/dev/gcuctl"], [], id="devices"),
        pytest.param(ENFLAME, (Strategy.CDI,), None, [], ["enflame.com/gcu=2"], id="cdi"),
        pytest.param(ALIYUN, (Strategy.CDI,), "void", [], ["nvidia.com/gpu=GPU-8f4e"], id="no image shows more"),
        pytest.param(
            ALIYUN,
            (Strategy.ENV, Strategy.DEVICES, Strategy.CDI),
            "GPU-8f4e",
            ["/dev/nvidia2", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"],
            ["nvidia.com/gpu=GPU-8f4e"],
            id="all of them",
        ),
    ],
)
def test_each_strategy_adds_its_own_words(
    vendor: Vendor, strategies: Collection[Strategy], visible: str | None, devices: list[str], cdi: list[str]
) -> None:
    answer = AllocateResponses(vendor, strategies).build(Grant((card(2, uuid="GPU-8f4e"),), 1), GB)
    assert answer.envs.get(vendor.environment.visible) == visible
    assert [(device.container_path, device.host_path, device.permissions) for device in answer.devices] == [
        (path, path, "rw") for path in devices
    ]
    assert [device.name for device in answer.cdi_devices] == cdi


def test_several_cards_are_named_in_one_list() -> None:
    grant = Grant((card(0), card(2)), 8)
    answer = AllocateResponses(ENFLAME, (Strategy.ENV, Strategy.DEVICES)).build(grant, GB)
    assert answer.envs["ENFLAME_VISIBLE_DEVICES"] == "0,2"
    assert [device.host_path for device in answer.devices] == ["/dev/gcu0", "/dev/gcu2", "/dev/gcuctl"]


def test_whole_cards_carry_no_memory_limit() -> None:
    grant = Grant((card(0),), 1, whole=True)
    assert OF_ENFLAME.edits(grant, GB).variables == {"ENFLAME_VISIBLE_DEVICES": "0"}


@pytest.mark.parametrize("strategies", [(Strategy.DEVICES,), (Strategy.ENV,), (Strategy.ENV, Strategy.DEVICES)])
def test_the_drivers_directories_come_with_the_device_nodes_and_read_only(strategies: tuple[Strategy, ...]) -> None:
    folders = (Path("/usr/local/nvidia"), Path("/usr/lib/libefml.so"))
    given = AllocateResponses(ENFLAME, strategies, driver_dirs=folders).build(Grant((card(2),), 4), GB)
    mounts = [(each.container_path, each.host_path, each.read_only) for each in given.mounts]
    expected = [(str(each), str(each), True) for each in folders] if Strategy.DEVICES in strategies else []
    assert mounts == expected


NVML_ORDER = {4: "GPU-44", 0: "GPU-00"}
"""Minor numbers and uuids of two cards, in the order in which NVML counts them: index 0 is /dev/nvidia4."""


NVIDIA = inventory(*(card(minor, uuid=uuid) for minor, uuid in NVML_ORDER.items()))


def toolkit_file(*uuids: str) -> str:
    """What nvidia-ctk writes, here for cards whose index by NVML is not their minor number."""
    by_index = "".join(
        f'- containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia{minor}\n  name: "{index}"\n'
        for index, minor in enumerate(NVML_ORDER)
    )
    by_uuid = "".join(f"- containerEdits: {{}}\n  name: {uuid}\n" for uuid in uuids)
    return f"---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n{by_index}{by_uuid}"


def in_directories(vendor: Vendor, directory: Path, *others: Path) -> CdiSpecFile:
    """The file of a machine whose own specifications do not matter here."""
    return CdiSpecFile(directory, vendor, standard_dirs=others)


def names(path: Path) -> list[str]:
    return [device["name"] for device in json.loads(path.read_text())["devices"]]


def test_each_card_is_a_device_and_every_container_gets_the_control_nodes() -> None:
    spec = cdi_spec(ENFLAME, inventory(card(0), card(5)))
    assert (spec["cdiVersion"], spec["kind"]) == ("0.6.0", "enflame.com/gcu")
    assert spec["devices"][1] == {
        "name": "5",
        "containerEdits": {"deviceNodes": [{"path": "/dev/gcu5", "permissions": "rw"}]},
    }
    assert spec["containerEdits"] == {"deviceNodes": [{"path": "/dev/gcuctl", "permissions": "rw"}]}


def test_the_file_follows_the_cards_and_leaves_no_temporary_one(tmp_path: Path) -> None:
    publisher = CdiSpecPublisher(file := in_directories(ENFLAME, tmp_path / "cdi"), is_wanted=True)
    publisher.update(inventory(16, 16))
    assert names(file.path) == ["0", "1"]
    publisher.update(inventory(16, 16, 16))
    assert names(file.path) == ["0", "1", "2"]
    assert [path.name for path in file.path.parent.iterdir()] == ["gcushare-enflame.json"]


@pytest.mark.parametrize("text", [None, '{"devices": []}'], ids=["removed", "overwritten"])
def test_a_file_that_another_program_changed_is_written_again(tmp_path: Path, text: str | None) -> None:
    publisher = CdiSpecPublisher(file := in_directories(ENFLAME, tmp_path), is_wanted=True)
    publisher.update(inventory(16))
    file.path.unlink() if text is None else file.path.write_text(text)
    publisher.update(inventory(16))
    assert names(file.path) == ["0"]


def test_no_file_is_read_again_while_nothing_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    publisher = CdiSpecPublisher(in_directories(ENFLAME, tmp_path), is_wanted=True)
    (tmp_path / "a-directory.json").mkdir()
    for _ in range(3):
        publisher.update(inventory(16))
    publisher.update(inventory(16, 16))
    reads = [record for record in caplog.records if "a-directory.json" in record.getMessage()]
    assert len(reads) == 2, "once for each list of cards"


@pytest.mark.parametrize(
    ("holders", "is_kept"),
    [
        pytest.param(None, True, id="not known who holds cards"),
        pytest.param(1, True, id="a pod holds one"),
        pytest.param(0, False, id="no one does"),
    ],
)
def test_without_the_strategy_the_file_goes_when_no_one_can_need_it(
    tmp_path: Path, holders: int | None, is_kept: bool
) -> None:
    (file := in_directories(ENFLAME, tmp_path)).write(inventory(16))
    publisher = CdiSpecPublisher(file, is_wanted=False)
    if holders is not None:
        publisher.update_holders(holders)
    publisher.update(inventory(16))
    assert file.path.exists() is is_kept


def test_a_card_that_toolkits_know_by_uuid_is_named_so_and_by_its_index_as_before() -> None:
    nodes = {
        device["name"]: [node["path"] for node in device["containerEdits"]["deviceNodes"]]
        for device in cdi_spec(ALIYUN, NVIDIA)["devices"]
    }
    four, zero = ["/dev/nvidia4"], ["/dev/nvidia0"]
    assert nodes == {"GPU-44": four, "4": four, "GPU-00": zero, "0": zero}
    assert [cdi_name(ALIYUN, each) for each in NVIDIA.cards] == ["GPU-44", "GPU-00"]
    assert cdi_name(ENFLAME, NVIDIA.cards[0]) == "4"


@pytest.mark.parametrize("uuid", ["", "no name", "GPU-", "-4"])
def test_a_uuid_that_is_no_name_for_a_device_does_not_make_the_file_unusable(uuid: str) -> None:
    assert cdi_name(ALIYUN, card(4, uuid=uuid)) == "4"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param('{"kind": "nvidia.com/gpu", "devices": [{"name": "GPU-44"}, {"name":"GPU-00"}]}', id="json"),
        pytest.param(toolkit_file("GPU-44", "GPU-00"), id="yaml"),
        pytest.param("kind: \"nvidia.com/gpu\"\ndevices: [{name: 'GPU-44'}, {name: GPU-00}]", id="yaml with quotes"),
    ],
)
@pytest.mark.parametrize("folder", ["etc", "run"])
def test_ours_stays_away_while_a_toolkit_defines_the_same_devices(tmp_path: Path, folder: str, other: str) -> None:
    file = in_directories(ALIYUN, tmp_path / "run", tmp_path / "etc", tmp_path / "run")
    publisher = CdiSpecPublisher(file, is_wanted=True)
    path = tmp_path / folder / "nvidia.yaml"
    path.parent.mkdir()
    path.with_name("link-to-nothing.yaml").symlink_to("gone")
    publisher.update(NVIDIA)
    path.write_text(other)
    publisher.update(NVIDIA)
    assert (file.path.exists(), publisher.problem) == (False, "")
    path.write_text("kind: nvidia.com/gpu-other\n")
    publisher.update(NVIDIA)
    assert names(file.path) == ["GPU-44", "4", "GPU-00", "0"]


def test_a_toolkits_file_without_a_cards_uuid_is_a_problem_and_not_taken_for_another_card(tmp_path: Path) -> None:
    other = tmp_path / "nvidia.yaml"
    other.write_text(toolkit_file("GPU-00", "GPU-441"))
    publisher = CdiSpecPublisher(file := in_directories(ALIYUN, tmp_path), is_wanted=True)
    assert [publisher.update(NVIDIA), publisher.update(NVIDIA)] == [True, False]
    assert f"{other} defines nvidia.com/gpu without GPU-44, so no container" in publisher.problem
    assert not file.path.exists()
    other.write_text(toolkit_file("GPU-00", "GPU-44"))
    publisher.update(NVIDIA)
    assert publisher.problem == ""


def test_a_directory_that_cannot_be_written_is_a_problem_reported_once_and_gone_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "cdi").write_text("a file where the directory should be")
    publisher = CdiSpecPublisher(in_directories(ENFLAME, tmp_path / "cdi"), is_wanted=True)
    assert [publisher.update(inventory(16)), publisher.update(inventory(16))] == [True, False]
    assert "gcushare-enflame.json cannot be written" in publisher.problem
    (tmp_path / "cdi").unlink()
    assert not publisher.update(inventory(16))
    assert publisher.problem == ""


def test_removal_says_whether_there_was_a_file_and_fails_in_words(tmp_path: Path) -> None:
    file = in_directories(ENFLAME, tmp_path)
    file.write(inventory(16))
    assert [file.remove(), file.remove()] == [True, False]
    file.path.mkdir()
    with pytest.raises(DeviceError, match="cannot be removed"):
        file.remove()


def test_nothing_is_written_if_others_could_plant_a_link(tmp_path: Path) -> None:
    file = in_directories(ENFLAME, tmp_path / "cdi")
    file.path.parent.mkdir()
    file.path.parent.chmod(0o777)
    (tmp_path / "victim").write_text("precious")
    file.path.with_name(f"{file.path.name}.tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(DeviceError, match="can be written by others"):
        file.write(inventory(16))
    file.path.parent.chmod(0o755)
    file.write(inventory(16))
    assert ((tmp_path / "victim").read_text(), names(file.path)) == ("precious", ["0"])
