"""NVML through pynvml and a real shared object in a real worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.links import LinkTable
from gcushare.cards.nvidia.xids import APPLICATION_XIDS
from gcushare.cards.ports import HealthEvent, HealthReading, LinkLevel
from gcushare.cards.worker.time_limits import IsolationSettings
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError
from tests.native.libraries import install_fake, isolated

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
        use = await source.use(report.cards[1])
    assert report.driver == "550.54.15"
    assert report.cards[1] == Card(
        index=1,
        uuid="GPU-00000001",
        memory_bytes=80 * GIB,
        model="NVIDIA Fake 80GB",
        serial="SN0001",
        pci_address="0000:3b:00.0",
        numa_node=1,
    )
    assert use == CardUse(
        memory_used_bytes=2 * GIB,
        temperature_celsius=43.0,
        power_watts=123.5,
        utilization_percent=67.0,
        fan_percent=31.0,
        performance_state=8,
        compute_mode="default",
        ecc=True,
        mig=False,
        persistence=True,
        power_limit_watts=250.0,
        cuda_version="12.4",
        processes={4242: 3 * GIB},
        process_utilization={4242: 35.0},
        process_names={4242: "python3"},
    )


# Each test starts a worker process: half a second of processor time. `make test` keeps what a card and its faults are.
@pytest.mark.slow
async def test_a_process_without_a_new_sample_does_not_use_the_chip(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("set mps_clients 0 1")
    async with isolated(fake) as source:
        card = (await source.list_cards()).cards[0]
        uses = [await source.use(card) for _ in range(2)]
        fake.control("set samples_until 0 3000")
        uses.append(await source.use(card))
    assert [use.process_utilization for use in uses] == [{4242: 35.0, 5252: 0.0}, {4242: 0.0, 5252: 0.0}, {4242: 35.0}]


@pytest.mark.slow
@pytest.mark.parametrize("code", [3, 7], ids=["not supported", "more processes came"])
async def test_a_card_that_does_not_sample_processes_reports_all_else(tmp_path: Path, code: int) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control(f"fail nvmlDeviceGetProcessUtilization * {code}")
    async with isolated(fake) as source:
        use = await source.use((await source.list_cards()).cards[0])
    assert (use.process_utilization, use.processes, use.utilization_percent) == (None, {4242: 3 * GIB}, 67.0)


@pytest.mark.slow
async def test_a_process_that_ended_has_no_name_and_costs_no_other_figure(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("set mps_clients 0 1")
    async with isolated(fake) as source:
        use = await source.use((await source.list_cards()).cards[0])
    assert use.process_names == {4242: "python3"}
    assert use.processes == {4242: 3 * GIB, 5252: 2 * GIB}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listed", "pid", "usual"), [("mps_clients", "mps_pid", 5252), ("graphics", "graphics_pid", 6262)]
)
async def test_a_process_of_any_list_uses_the_card_and_one_in_two_lists_is_counted_once(
    tmp_path: Path, listed: str, pid: str, usual: int
) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control(f"set {listed} 0 1", f"set {listed} 1 1", f"set {pid} 1 4242")
    async with isolated(fake) as source:
        report = await source.list_cards()
        uses = [await source.use(card) for card in report.cards]
    assert [use.processes for use in uses] == [{4242: 3 * GIB, usual: 2 * GIB}, {4242: 3 * GIB}]


@pytest.mark.slow
async def test_the_most_that_a_process_ever_had_is_known_if_accounting_is_on(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("set accounting 0 1", "set mps_clients 0 1")
    async with isolated(fake) as source:
        report = await source.list_cards()
        uses = [await source.use(card) for card in report.cards]
    assert [use.peaks for use in uses] == [{4242: 5 * GIB}, None]


@pytest.mark.slow
async def test_how_the_driver_runs_each_card_is_read_from_it(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("set ecc 0 0", "set compute_mode 0 3", "set performance_state 0 0", "set performance_state 1 32")
    async with isolated(fake) as source:
        report = await source.list_cards()
        uses = [await source.use(card) for card in report.cards]
    assert [(use.ecc, use.mig, use.compute_mode, use.performance_state) for use in uses] == [
        (False, False, "exclusive-process", 0),
        (True, False, "default", None),
    ]


@pytest.mark.slow
async def test_a_consumer_card_without_serial_and_sensors_is_a_card(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    names = (
        "nvmlDeviceGetSerial",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetFanSpeed",
        "nvmlDeviceGetPerformanceState",
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceGetPowerManagementLimit",
        "nvmlSystemGetCudaDriverVersion",
        "nvmlDeviceGetComputeRunningProcesses_v3",
    )
    fake.control(*(f"absent {name} * 3" for name in names))
    async with isolated(fake) as source:
        card = (await source.list_cards()).cards[1]
        reading, use = await source.health(card), await source.use(card)
    assert (card.index, card.serial, card.pci_address) == (1, "", "")
    assert reading == HealthReading(healthy=True)
    assert use == CardUse(memory_used_bytes=2 * GIB)


@pytest.mark.slow
async def test_cards_differ_in_size_and_stand_by_their_minor_number(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("set minor 0 3", f"set memory 1 {24 * GIB}")
    async with isolated(fake) as source:
        cards = (await source.list_cards()).cards
        uses = [await source.use(card) for card in cards]
    assert [(card.index, card.memory_bytes) for card in cards] == [(1, 24 * GIB), (3, 80 * GIB)]
    assert [use.memory_used_bytes for use in uses] == [2 * GIB, GIB]  # each asked at its own position


@pytest.mark.slow
async def test_cards_that_are_shared_another_way_are_left_out(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("cards 3", "set mig 1 1", "absent nvmlDeviceGetMemoryInfo 2 3")
    async with isolated(fake) as source:
        report = await source.list_cards()
    assert [card.index for card in report.cards] == [0]
    assert report.left_out == (
        LeftOutCard(index=1, uuid="GPU-00000001", reason="MIG mode is on"),
        LeftOutCard(index=2, uuid="GPU-00000002", reason=NO_MEMORY),
    )


async def test_a_card_with_unified_memory_offers_what_the_admin_says_and_uses_what_its_processes_do(
    tmp_path: Path,
) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("cards 1", "absent nvmlDeviceGetMemoryInfo 0 3", "absent nvmlDeviceGetMemoryInfo_v2 0 3")
    async with isolated(fake, unified_memory=96 * GIB) as source:
        (card,) = (await source.list_cards()).cards
        use, health = await source.use(card), await source.health(card)
    assert (card.memory_bytes, card.driver_bytes, health.healthy) == (96 * GIB, 0, True)
    assert use.memory_used_bytes == sum((use.processes or {}).values()) == 3 * GIB


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        pytest.param(("set reserved 0 471859200",), 450 << 20, id="said by the driver"),
        pytest.param(("absent nvmlDeviceGetMemoryInfo_v2 * 13",), 0, id="an older driver"),
        pytest.param(("set reserved 0 99999999999999",), 0, id="more than there is"),
    ],
)
async def test_what_the_driver_keeps_for_itself_is_part_of_a_card(
    tmp_path: Path, rules: tuple[str, ...], kept: int
) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("cards 1", *rules)
    async with isolated(fake) as source:
        (card,) = (await source.list_cards()).cards
    assert (card.memory_bytes, card.driver_bytes) == (80 * GIB, kept)


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
            reading = await source.health(second)
            assert not reading.healthy, rule
            assert reading.reason.startswith(reason)
            assert (await source.health(first)).healthy


async def test_a_card_off_the_bus_is_lost(tmp_path: Path) -> None:
    devices = tmp_path / "devices"
    for address in ("0000:3a:00.0", "0000:3b:00.0"):
        (devices / address).mkdir(parents=True)
    async with isolated(install_fake("nvml", tmp_path), pci_devices=str(devices)) as source:
        first, second = (await source.list_cards()).cards
        (devices / "0000:3b:00.0").rmdir()
        assert (await source.health(first)).healthy
        reading = await source.health(second)
    assert reading.lost
    assert "0000:3b:00.0" in reading.reason


@pytest.mark.slow
async def test_a_critical_xid_is_an_event_of_its_card(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    async with isolated(fake) as source:
        await source.list_cards()
        fake.control(f"event 1 1 {XID} 79", f"event 2 0 {DOUBLE_BIT_ECC} 0")
        events = [await source.wait_event(20.0), await source.wait_event(20.0)]
    assert events == [
        HealthEvent(uuid="GPU-00000001", reason="critical XID 79", critical=True),
        HealthEvent(uuid="GPU-00000000", reason="uncorrectable memory error (double-bit ECC)", critical=True),
    ]


@pytest.mark.slow
async def test_xids_of_applications_are_no_illness(tmp_path: Path) -> None:
    assert {13, 31, 43, 45, 68, 109} == APPLICATION_XIDS
    fake = install_fake("nvml", tmp_path)
    async with isolated(fake, harmless_xids=(94,)) as source:
        await source.list_cards()
        harmless = [f"event {serial} 0 {XID} {xid}" for serial, xid in enumerate((*APPLICATION_XIDS, 94), start=1)]
        fake.control(*harmless, f"event {len(harmless) + 1} 0 {XID} 48")
        event = await source.wait_event(20.0)  # waited through all of them
    assert event == HealthEvent(uuid="GPU-00000000", reason="critical XID 48", critical=True)


@pytest.mark.slow
async def test_an_event_whose_card_does_not_answer_asks_for_a_look(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    async with isolated(fake) as source:
        await source.list_cards()
        fake.control(f"event 1 1 {XID} 79", "absent nvmlDeviceGetUUID 1 3")
        event = await source.wait_event(20.0)
    assert event == HealthEvent(uuid=None, reason="critical XID 79", critical=False)


@pytest.mark.slow
async def test_the_event_of_a_card_that_is_lost_meanwhile_is_that_cards(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    async with isolated(fake) as source:
        await source.list_cards()
        assert await source.wait_event(0.05) is None
        fake.control(f"event 1 1 {XID} 79", "fail nvmlDeviceGetUUID 1 15")
        event = await source.wait_event(20.0)
    assert event == HealthEvent(uuid="GPU-00000001", reason="critical XID 79", critical=True)


@pytest.mark.slow
async def test_cards_without_events_are_polled(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("absent nvmlDeviceGetSupportedEventTypes * 3", f"event 1 1 {XID} 79")
    async with isolated(fake) as source:
        card = (await source.list_cards()).cards[0]
        assert await source.wait_event(0.05) is None
        assert (await source.health(card)).healthy


@pytest.mark.slow
async def test_how_near_two_cards_are(tmp_path: Path) -> None:
    levels = {
        ("set nvlink * 1",): LinkLevel.FABRIC,
        ("set topology * 0",): LinkLevel.BOARD,
        ("set topology * 10",): LinkLevel.SWITCH,
        ("set topology * 20",): LinkLevel.ROOT,
        ("set topology * 30",): LinkLevel.ROOT,
        ("set topology * 40",): LinkLevel.NUMA,
        ("set topology * 50",): LinkLevel.SYSTEM,
        ("absent nvmlDeviceGetP2PStatus * 3", "absent nvmlDeviceGetTopologyCommonAncestor * 13"): None,
    }
    fake = install_fake("nvml", tmp_path)
    async with isolated(fake) as source:
        first, second = (await source.list_cards()).cards
        for rules, level in levels.items():
            fake.control(*rules)
            assert await source.link_level(first, second) == level, rules


@pytest.mark.slow
async def test_cards_with_a_direct_link_or_one_switch_are_a_group(tmp_path: Path) -> None:
    groups = {
        ("cards 4", "set nvlink 0 1", "set topology 2 10"): ["link-0"] * 4,
        ("cards 4", "set topology 2 10"): ["", "", "link-2", "link-2"],
        ("cards 4",): [""] * 4,
    }
    fake = install_fake("nvml", tmp_path)
    for rules, expected in groups.items():
        fake.control(*rules)
        async with isolated(fake) as source:
            report = await LinkTable(source).fill(await source.list_cards())
        assert [card.link_group for card in report.cards] == expected, rules


@pytest.mark.slow
async def test_a_question_about_links_that_hangs_makes_no_card_sick(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control("hang nvmlDeviceGetP2PStatus 0")
    async with isolated(fake, IsolationSettings(call_timeout_s=3.0)) as source:
        report = await LinkTable(source).fill(await source.list_cards())
        readings = [await source.health(card) for card in report.cards]
    assert [card.link_group for card in report.cards] == ["", ""]
    assert readings == [HealthReading(healthy=True)] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "name"), [(9, "NVML_ERROR_DRIVER_NOT_LOADED"), (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH")]
)
async def test_a_library_without_its_driver_says_so(tmp_path: Path, code: int, name: str) -> None:
    fake = install_fake("nvml", tmp_path)
    fake.control(f"fail nvmlInitWithFlags * {code}")
    async with isolated(fake) as source:
        with pytest.raises(DeviceError, match=rf"nvmlInit failed with {name} \({code}\)"):
            await source.list_cards()


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
