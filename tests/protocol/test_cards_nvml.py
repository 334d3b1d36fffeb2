"""NVML through pynvml and a real shared object: in a real worker what it makes of answers, in this process the rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.links import LinkTable
from gcushare.cards.nvidia.nvml import NvmlLibrary
from gcushare.cards.nvidia.xids import APPLICATION_XIDS
from gcushare.cards.pci import PciBus
from gcushare.cards.ports import HealthEvent, HealthReading
from gcushare.cards.worker.time_limits import IsolationSettings
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError
from tests.native.libraries import FakeLibrary, install_fake, isolated, nvml_here

GIB = 1 << 30
XID, DOUBLE_BIT_ECC = 8, 2
NO_MEMORY = "the driver reports no memory of its own for it, as with unified memory: set --unified-memory"


async def test_all_of_a_card_is_reported(tmp_path: Path) -> None:
    devices = tmp_path / "devices"
    for address in ("0000:3a:00.0", "0000:3b:00.0"):
        (devices / address).mkdir(parents=True)
        (devices / address / "numa_node").write_text("1\n")
    async with isolated(install_fake("nvml", tmp_path), pci_devices=str(devices)) as source:
        report = await source.list_cards()
    assert report.driver == "550.54.15"
    assert report.cards[1] == Card(
        index=1, uuid="GPU-00000001", memory_bytes=80 * GIB, model="NVIDIA Fake 80GB", serial="SN0001",
        pci_address="0000:3b:00.0", numa_node=1,
    )  # fmt: skip
    assert report.uses["GPU-00000001"] == CardUse(
        memory_used_bytes=2 * GIB, temperature_celsius=43.0, power_watts=123.5, power_limit_watts=250.0,
        utilization_percent=67.0, fan_percent=31.0, performance_state=8, compute_mode="default", cuda_version="12.4",
        ecc=True, mig=False, persistence=True,
        processes={4242: 3 * GIB}, process_utilization={4242: 35.0}, process_names={4242: "python3"},
    )  # fmt: skip


async def test_a_sick_card_says_why_and_the_other_is_well(tmp_path: Path) -> None:
    reasons = {
        "set recovery_action 1 1": "the driver asks for a reset of the card",
        "set recovery_action 1 2": "the driver asks for a reboot of the node",
        "set recovery_action 1 99": "the driver asks for recovery action 99",
        "set remap_failed 1 1": "a row of its memory could not be remapped: the card needs replacement",
        "fail nvmlDeviceGetMemoryInfo 1 16": "nvmlDeviceGetMemoryInfo failed with NVML_ERROR_RESET_REQUIRED (16)",
        "fail nvmlDeviceGetMemoryInfo 1 15": "nvmlDeviceGetMemoryInfo failed with NVML_ERROR_GPU_IS_LOST (15)",
        "fail nvmlDeviceGetHandleByIndex_v2 1 999": "nvmlDeviceGetHandleByIndex failed with NVML_ERROR_UNKNOWN (999)",
    }
    fake = install_fake("nvml", tmp_path)
    async with isolated(fake) as source:
        first, second = (await source.list_cards()).cards
        for rule, reason in reasons.items():
            fake.control(rule)
            readings = (await source.list_cards()).readings
            assert not readings[second.uuid].healthy, rule
            assert readings[second.uuid].reason.startswith(reason)
            assert readings[first.uuid].healthy


async def test_a_card_off_the_bus_is_lost(tmp_path: Path) -> None:
    devices = tmp_path / "devices"
    for address in ("0000:3a:00.0", "0000:3b:00.0"):
        (devices / address).mkdir(parents=True)
    async with isolated(install_fake("nvml", tmp_path), pci_devices=str(devices)) as source:
        first, second = (await source.list_cards()).cards
        (devices / "0000:3b:00.0").rmdir()
        readings = (await source.list_cards()).readings
    assert readings[first.uuid].healthy
    assert readings[second.uuid].lost
    assert "0000:3b:00.0" in readings[second.uuid].reason


# In this process: a worker for each would cost more than all that they ask.

SERIALS = itertools.count(1)
"""Of events: the library delivers each number once, as long as it is loaded."""


@contextmanager
def opened(*rules: str, **options: Any) -> Iterator[tuple[FakeLibrary, NvmlLibrary]]:
    fake, _ = nvml_here()
    fake.control(*rules)
    library = NvmlLibrary(str(fake.path), PciBus(Path("/nonexistent")), lambda _name: None, **options)
    library.open()
    try:
        yield fake, library
    finally:
        fake.control()
        library.close()


def event(card: int, kind: int, data: int) -> str:
    return f"event {next(SERIALS)} {card} {kind} {data}"


def test_the_chips_use_by_processes_is_what_was_sampled_since_the_last_look() -> None:
    with opened("set mps_clients 0 1") as (fake, library):
        uses = [library.use(0) for _ in range(2)]
        fake.control("set samples_until 0 3000")
        uses.append(library.use(0))
        assert [use.process_utilization for use in uses] == [
            {4242: 35.0, 5252: 0.0}, {4242: 0.0, 5252: 0.0}, {4242: 35.0}
        ]  # fmt: skip
        for code in (3, 7):  # not supported; more processes came meanwhile
            fake.control(f"fail nvmlDeviceGetProcessUtilization * {code}")
            use = library.use(0)
            assert (use.process_utilization, use.processes, use.utilization_percent) == (None, {4242: 3 * GIB}, 67.0)


def test_a_process_of_any_list_is_counted_once_and_may_have_no_name() -> None:
    with opened("set mps_clients 0 1") as (fake, library):
        use = library.use(0)
        assert use.processes == {4242: 3 * GIB, 5252: 2 * GIB}
        assert use.process_names == {4242: "python3"}, "the other one has ended"
        for listed, pid, usual in (("mps_clients", "mps_pid", 5252), ("graphics", "graphics_pid", 6262)):
            fake.control(f"set {listed} 0 1", f"set {listed} 1 1", f"set {pid} 1 4242")
            uses = [library.use(slot).processes for slot in range(2)]
            assert uses == [{4242: 3 * GIB, usual: 2 * GIB}, {4242: 3 * GIB}], listed


def test_how_the_driver_runs_each_card_is_read_from_it() -> None:
    rules = ("set ecc 0 0", "set compute_mode 0 3", "set performance_state 0 0", "set performance_state 1 32")
    with opened(*rules) as (_, library):
        uses = [library.use(slot) for slot in range(2)]
    assert [(use.ecc, use.mig, use.compute_mode, use.performance_state) for use in uses] == [
        (False, False, "exclusive-process", 0),
        (True, False, "default", None),
    ]


def test_a_consumer_card_without_serial_and_sensors_is_a_card() -> None:
    of_a_card = (
        "Serial MinorNumber MigMode PciInfo_v3 FieldValues RemappedRows Temperature PowerUsage UtilizationRates "
        "FanSpeed PerformanceState ComputeMode EccMode PersistenceMode PowerManagementLimit ComputeRunningProcesses_v3"
    )
    names = ["nvmlSystemGetCudaDriverVersion", *(f"nvmlDeviceGet{name}" for name in of_a_card.split())]
    with opened(*(f"absent {name} * 3" for name in names)) as (_, library):
        card = library.describe(1)
        reading, use = library.health(1), library.use(1)
    assert isinstance(card, Card)
    assert (card.index, card.serial, card.pci_address) == (1, "", "")
    assert reading == HealthReading(healthy=True)
    assert use == CardUse(memory_used_bytes=2 * GIB)


def test_cards_differ_in_size_and_are_called_by_their_minor_number() -> None:
    with opened("set minor 0 3", f"set memory 1 {24 * GIB}") as (_, library):
        cards = [library.describe(slot) for slot in range(2)]
    assert [(card.index, card.memory_bytes) for card in cards if isinstance(card, Card)] == [
        (3, 80 * GIB),
        (1, 24 * GIB),
    ]


def test_cards_that_are_shared_another_way_are_left_out() -> None:
    with opened("cards 3", "set mig 1 1", "absent nvmlDeviceGetMemoryInfo 2 3") as (_, library):
        mig, unified = library.describe(1), library.describe(2)
    assert mig == LeftOutCard(index=1, uuid="GPU-00000001", reason="MIG mode is on")
    assert unified == LeftOutCard(index=2, uuid="GPU-00000002", reason=NO_MEMORY)


def test_a_card_with_unified_memory_offers_what_the_admin_says_and_uses_what_its_processes_do() -> None:
    rules = ("absent nvmlDeviceGetMemoryInfo 0 3", "absent nvmlDeviceGetMemoryInfo_v2 0 3")
    with opened(*rules, unified_memory=96 * GIB) as (_, library):
        card, use, health = library.describe(0), library.use(0), library.health(0)
    assert isinstance(card, Card)
    assert (card.memory_bytes, card.driver_bytes, health.healthy) == (96 * GIB, 0, True)
    assert use.memory_used_bytes == sum((use.processes or {}).values()) == 3 * GIB


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        pytest.param("set reserved 0 471859200", 450 << 20, id="said by the driver"),
        pytest.param("absent nvmlDeviceGetMemoryInfo_v2 * 13", 0, id="an older driver"),
    ],
)
def test_what_the_driver_keeps_for_itself_is_part_of_a_card(rule: str, kept: int) -> None:
    with opened(rule) as (_, library):
        card = library.describe(0)
    assert isinstance(card, Card)
    assert (card.memory_bytes, card.driver_bytes) == (80 * GIB, kept)


def test_a_critical_xid_is_an_event_of_its_card_and_those_of_applications_are_no_illness() -> None:
    assert {13, 31, 43, 45, 68, 109} == APPLICATION_XIDS
    with opened(extra_application_xids=frozenset({94})) as (fake, library):
        assert library.wait_event(0.01) is None
        harmless = [event(0, XID, xid) for xid in (*APPLICATION_XIDS, 94)]
        fake.control(*harmless, event(1, XID, 79), event(0, DOUBLE_BIT_ECC, 0))
        events = [library.wait_event(20.0), library.wait_event(20.0)]
        fake.control(event(1, XID, 79), "fail nvmlDeviceGetUUID 1 15")
        events.append(library.wait_event(20.0))  # its card is lost meanwhile
    critical = HealthEvent(uuid="GPU-00000001", reason="critical XID 79", critical=True)
    ecc = HealthEvent(uuid="GPU-00000000", reason="uncorrectable memory error (double-bit ECC)", critical=True)
    assert events == [critical, ecc, critical]


def test_an_event_whose_card_does_not_answer_asks_for_a_look() -> None:
    with opened("absent nvmlDeviceGetUUID 1 3", event(1, XID, 79)) as (_, library):
        found = library.wait_event(20.0)
    assert found == HealthEvent(uuid=None, reason="critical XID 79", critical=False)


def test_cards_without_events_say_so_and_are_polled() -> None:
    with opened("absent nvmlDeviceGetSupportedEventTypes * 3") as (_, library):
        with pytest.raises(LibraryCallError) as caught:
            library.wait_event(0.01)
        assert caught.value.failure.is_unsupported
        assert library.health(0).healthy


def test_cards_with_nvlink_or_one_switch_between_them_are_linked() -> None:
    linked = {
        ("set nvlink * 1",): True,
        ("set topology * 0",): True,
        ("set topology * 10",): True,
        ("set topology * 20",): False,
        ("absent nvmlDeviceGetP2PStatus * 3", "absent nvmlDeviceGetTopologyCommonAncestor * 13"): False,
    }
    with opened() as (fake, library):
        for rules, is_linked in linked.items():
            fake.control(*rules)
            assert library.are_linked(0, 1) is is_linked, rules


@pytest.mark.parametrize(
    ("code", "name"), [(9, "NVML_ERROR_DRIVER_NOT_LOADED"), (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH")]
)
def test_a_library_without_its_driver_says_so(code: int, name: str) -> None:
    with (
        pytest.raises(DeviceError, match=rf"nvmlInit failed with {name} \({code}\)"),
        opened(f"fail nvmlInitWithFlags * {code}"),
    ):
        pass


# In a worker again, which hangs or is replaced


@pytest.mark.slow
async def test_a_question_about_links_that_hangs_makes_no_card_sick(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path, "hang nvmlDeviceGetP2PStatus 0")
    async with isolated(fake, IsolationSettings(call_timeout_s=3.0)) as source:
        report = await LinkTable(source).fill(await source.list_cards())
        assert [card.link_group for card in report.cards] == ["", ""]
        readings = (await source.list_cards()).readings
    assert list(readings.values()) == [HealthReading(healthy=True)] * 2


@pytest.mark.slow
async def test_a_failing_count_has_the_library_initialised_again(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    async with isolated(fake) as source:
        await source.list_cards()
        fake.control("fail nvmlDeviceGetCount_v2 * 1")
        with pytest.raises(LibraryCallError, match="NVML_ERROR_UNINITIALIZED"):
            await source.list_cards()
        assert source.worker_pid is None
        fake.control()
        assert len((await source.list_cards()).cards) == 2
