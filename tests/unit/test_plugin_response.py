"""What a container is given for its card, by each strategy and vendor."""

from collections.abc import Collection
from pathlib import Path

import pytest

from gcushare.core.units import GIB, parse_memory_unit
from gcushare.device_plugin.allocation.response import AllocateResponses
from gcushare.node.container_environment import Grant
from gcushare.node.node_settings import Strategy
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from tests.builders import card


def delivery(vendor: Vendor, *strategies: Strategy) -> AllocateResponses:
    return AllocateResponses(vendor, strategies)


def test_enflames_container_is_reported_its_card_and_its_limits_in_units_and_bytes() -> None:
    answer = delivery(ENFLAME, Strategy.ENV).build(Grant((card(3),), 4, pod_units=6), parse_memory_unit("1"))
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
    variables = delivery(ALIYUN, Strategy.ENV).edits(grant, parse_memory_unit("MiB")).variables
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
    variables = delivery(ALIYUN, Strategy.ENV).edits(grant, parse_memory_unit(unit)).variables
    shown = {name: value for name, value in variables.items() if "ALIYUN" in name}
    assert shown == {f"ALIYUN_COM_GPU_MEM_{name}": value for name, value in (w.split("=") for w in expected.split())}


def test_an_unknown_pods_limit_is_its_containers_own() -> None:
    variables = delivery(ENFLAME, Strategy.ENV).edits(Grant((card(0),), 4), parse_memory_unit("1")).variables
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
    answer = AllocateResponses(vendor, strategies).build(Grant((card(2, uuid="GPU-8f4e"),), 1), parse_memory_unit("1"))
    assert answer.envs.get(vendor.environment.visible) == visible
    assert [(device.container_path, device.host_path, device.permissions) for device in answer.devices] == [
        (path, path, "rw") for path in devices
    ]
    assert [device.name for device in answer.cdi_devices] == cdi


def test_several_cards_are_named_in_one_list() -> None:
    grant = Grant((card(0), card(2)), 8)
    answer = delivery(ENFLAME, Strategy.ENV, Strategy.DEVICES).build(grant, parse_memory_unit("1"))
    assert answer.envs["ENFLAME_VISIBLE_DEVICES"] == "0,2"
    assert [device.host_path for device in answer.devices] == ["/dev/gcu0", "/dev/gcu2", "/dev/gcuctl"]


def test_whole_cards_carry_no_memory_limit() -> None:
    grant = Grant((card(0),), 1, whole=True)
    assert delivery(ENFLAME, Strategy.ENV).edits(grant, parse_memory_unit("1")).variables == {
        "ENFLAME_VISIBLE_DEVICES": "0"
    }


@pytest.mark.parametrize("strategies", [(Strategy.DEVICES,), (Strategy.ENV,), (Strategy.ENV, Strategy.DEVICES)])
def test_the_drivers_directories_come_with_the_device_nodes_and_read_only(strategies: tuple[Strategy, ...]) -> None:
    folders = (Path("/usr/local/nvidia"), Path("/usr/lib/libefml.so"))
    given = AllocateResponses(ENFLAME, strategies, driver_dirs=folders).build(
        Grant((card(2),), 4), parse_memory_unit("1")
    )
    mounts = [(each.container_path, each.host_path, each.read_only) for each in given.mounts]
    expected = [(str(each), str(each), True) for each in folders] if Strategy.DEVICES in strategies else []
    assert mounts == expected
