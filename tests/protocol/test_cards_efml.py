"""EFML's binding on real shared objects: both APIs, every error code, all that a card may answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gcushare.cards.c_library import decode_text, find_library
from gcushare.cards.enflame.efml import EFML_PATHS, EfmlLibrary
from gcushare.cards.errors import LibraryCallError, LibraryNotOpenError
from gcushare.cards.pci import PciBus
from gcushare.cards.ports import HealthReading
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError
from tests.native.libraries import FakeKind, FakeLibrary, install_fake

GIB = 1 << 30
NO_BUS = PciBus(Path("/nonexistent"))
BOTH: tuple[FakeKind, ...] = ("efml_native", "efml_shaped")


def ignore_call(name: str) -> None:
    """Observe calls and keep nothing."""


def opened(fake: FakeLibrary, bus: PciBus = NO_BUS) -> EfmlLibrary:
    library = EfmlLibrary(str(fake.path), bus, ignore_call)
    library.open()
    return library


@pytest.mark.parametrize(
    ("kind", "driver", "model", "use"),
    [
        pytest.param(
            "efml_native", "1.2.3.4", "Enflame S60",
            CardUse(
                memory_used_bytes=2 * GIB,  # reported in MiB, after the padding of the struct
                temperature_celsius=42.5, power_watts=75.0, power_limit_watts=300.0, utilization_percent=12.5,
                ecc=True, processes={101: GIB, 201: 2 * GIB},
            ),
            id="its own API",
        ),
        pytest.param(
            "efml_shaped", "1.9.0", "Enflame L600",
            CardUse(
                memory_used_bytes=2 * GIB, temperature_celsius=41.0, power_watts=75.5, utilization_percent=12.0,
                fan_percent=45.0, mig=False, processes={101: GIB},
            ),
            id="the NVML-shaped API",
        ),
    ],
)  # fmt: skip
def test_either_api_reports_all_of_a_card(
    tmp_path: Path, kind: FakeKind, driver: str, model: str, use: CardUse
) -> None:
    library = opened(install_fake(kind, tmp_path))
    assert (library.card_count(), library.driver_version()) == (2, driver)
    of_both: dict[str, Any] = {"uuid": "GCU-UUID-0001", "serial": "SN0001", "pci_address": "0000:11:00.0"}
    assert library.describe(1) == Card(index=1, memory_bytes=32 * GIB, model=model, **of_both)
    assert library.use(1) == use


@pytest.mark.parametrize(("rule", "api"), [("", "own API"), ("fail EfmlInit * 13", "NVML-shaped API")])
def test_a_library_with_both_apis_is_used_through_its_own_if_it_can(tmp_path: Path, rule: str, api: str) -> None:
    library = EfmlLibrary(str(install_fake("efml", tmp_path, rule).path), NO_BUS, ignore_call)
    assert library.open() == f"{tmp_path}/libefml.so, {api}"
    assert isinstance(library.describe(0), Card)


def test_a_library_that_neither_api_opens_says_why_for_both(tmp_path: Path) -> None:
    fake = install_fake("efml", tmp_path, "fail EfmlInit * 6", "fail efmlInit_v2 * 9")
    with pytest.raises(
        DeviceError, match=r"EfmlInit failed with code 6: the library's words for 6; efmlInit_v2 failed with code 9"
    ):
        EfmlLibrary(str(fake.path), NO_BUS, ignore_call).open()


@pytest.mark.parametrize(
    ("kind", "call", "code", "words", "is_lost"),
    [
        ("efml_native", "EfmlGetDevMem", 15, "the library's words for 15", False),
        ("efml_shaped", "efmlDeviceGetMemoryInfo", 9, "some error", False),
        ("efml_shaped", "efmlDeviceGetMemoryInfo", 15, "GCU is lost", True),
    ],
)
def test_a_code_is_an_error_with_the_librarys_words_of_one_card(
    tmp_path: Path, kind: FakeKind, call: str, code: int, words: str, is_lost: bool
) -> None:
    fake = install_fake(kind, tmp_path)
    library = opened(fake)
    fake.control(f"fail {call} 1 {code}")
    with pytest.raises(LibraryCallError, match=f"^{call} failed with code {code}: {words}") as caught:
        library.describe(1)
    assert caught.value.failure.is_lost is is_lost
    assert isinstance(library.describe(0), Card)


@pytest.mark.parametrize(("kind", "code"), [("efml_native", 12), ("efml_shaped", 28)])
def test_a_driver_without_a_device_has_no_cards(tmp_path: Path, kind: FakeKind, code: int) -> None:
    fake = install_fake(kind, tmp_path)
    library = opened(fake)
    fake.control(f"fail EfmlGetDevCount * {code}", f"fail efmlDeviceGetCount_v2 * {code}")
    assert library.card_count() == 0


def test_queries_that_a_card_does_not_support_are_not_reported(tmp_path: Path) -> None:
    fake = install_fake("efml_native", tmp_path)
    names = ("Sn", "TempV2", "Pwr", "DtuUsage", "EccStatus")
    fake.control("absent EfmlGetProcessInfo * 3", *(f"absent EfmlGetDev{name} * 3" for name in names))
    library = opened(fake)
    described = library.describe(0)
    assert isinstance(described, Card)
    assert described.serial == ""
    assert library.use(0) == CardUse(memory_used_bytes=GIB)


@pytest.mark.parametrize("name", ["EfmlGetDevIsHealth", "EfmlGetDevHealth"])
def test_the_librarys_verdict_is_asked_by_whichever_name_it_has(tmp_path: Path, name: str) -> None:
    other = {"EfmlGetDevIsHealth", "EfmlGetDevHealth"} - {name}
    library = opened(install_fake("efml_native", tmp_path, f"absent {other.pop()} * 3", "set healthy 1 0"))
    assert library.health(0) == HealthReading(healthy=True)
    assert library.health(1) == HealthReading(healthy=False, reason="the library reports the card unhealthy")


def test_a_library_without_a_verdict_is_well_as_long_as_it_answers(tmp_path: Path) -> None:
    fake = install_fake("efml_native", tmp_path)
    absent = ("absent EfmlGetDevIsHealth * 3", "absent EfmlGetDevHealth * 9")
    fake.control(*absent)
    library = opened(fake)
    assert library.health(0).healthy
    fake.control(*absent, "fail EfmlGetDevMem 0 254")
    with pytest.raises(LibraryCallError):
        library.health(0)


@pytest.mark.parametrize("kind", BOTH)
def test_a_card_that_fell_off_the_bus_is_lost_before_the_library_is_asked(tmp_path: Path, kind: FakeKind) -> None:
    devices = tmp_path / "devices"
    for address in ("0000:10:00.0", "0000:11:00.0"):
        (devices / address).mkdir(parents=True)
    (devices / "0000:10:00.0" / "numa_node").write_text("1\n")
    fake = install_fake(kind, tmp_path)
    library = opened(fake, PciBus(devices))
    cards = [library.describe(slot) for slot in range(2)]
    assert [card.numa_node for card in cards if isinstance(card, Card)] == [1, None]
    fake.control("fail * 1 254")
    (devices / "0000:11:00.0").rmdir()
    assert library.health(0).healthy
    reading = library.health(1)
    assert reading.lost
    assert reading.reason == "the card fell off the bus: PCI device 0000:11:00.0 is gone"


@pytest.mark.parametrize(
    ("rules", "indexes"),
    [
        pytest.param((), [0, 1, 2], id="as reported"),
        pytest.param(("set logic_id 0 5",), [5, 1, 2], id="minor differs from position"),
        pytest.param(("set logic_id * 0",), [0, 1, 2], id="a library that does not fill it in"),
    ],
)
def test_the_index_is_the_device_nodes_number(tmp_path: Path, rules: tuple[str, ...], indexes: list[int]) -> None:
    library = opened(install_fake("efml_native", tmp_path, "cards 3", *rules))
    assert [library.describe(slot).index for slot in range(3)] == indexes


@pytest.mark.parametrize(
    ("rule", "uuid"),
    [
        pytest.param("set raw_uuid 1 1", "a1" * 16, id="raw bytes are written in hex"),
        pytest.param('set uuid 1 ""', "SN0001", id="none: the serial stands in"),
        pytest.param("absent EfmlGetDevUuid * 9", "SN0001", id="a library that has none"),
        pytest.param("absent EfmlGetDevUuid * 3\nabsent EfmlGetDevSn * 3", "pci-0000:11:00.0", id="no serial either"),
    ],
)
def test_a_uuid_is_always_there_to_tell_cards_apart(tmp_path: Path, rule: str, uuid: str) -> None:
    assert opened(install_fake("efml_native", tmp_path, rule)).describe(1).uuid == uuid


def test_a_card_with_mig_on_is_left_out(tmp_path: Path) -> None:
    library = opened(install_fake("efml_shaped", tmp_path, "set mig 1 1"))
    assert library.describe(1) == LeftOutCard(index=1, uuid="GCU-UUID-0001", reason="MIG mode is on")
    assert isinstance(library.describe(0), Card)


def test_an_event_of_the_library_asks_for_a_look(tmp_path: Path) -> None:
    fake = install_fake("efml_native", tmp_path)
    library = opened(fake)
    assert library.wait_event(0.01) is None
    fake.control("event 1 7 10 dtu reset")
    event = library.wait_event(5.0)
    assert event is not None
    assert (event.uuid, event.critical) == (None, False)
    assert event.reason == "the library reported reset started (7): dtu reset"
    assert library.wait_event(0.01) is None


def test_the_nvml_shaped_api_has_no_events(tmp_path: Path) -> None:
    with pytest.raises(LibraryCallError) as caught:
        opened(install_fake("efml_shaped", tmp_path)).wait_event(0.01)
    assert caught.value.failure.is_unsupported


@pytest.mark.parametrize(
    ("fake", "call"),
    [("efml_native", "EfmlGetProcessInfo"), ("efml_shaped", "efmlDeviceGetComputeRunningProcesses_v3")],
)
def test_a_library_that_does_not_list_processes_is_not_taken_for_a_card_without_any(
    fake: FakeKind, call: str, tmp_path: Path
) -> None:
    assert opened(install_fake(fake, tmp_path, f"absent {call} * 3")).use(0).processes is None


def test_a_file_that_is_no_library_is_refused_with_the_loaders_words(tmp_path: Path) -> None:
    path = tmp_path / "libefml.so"
    path.write_text("not a library")
    with pytest.raises(LibraryNotOpenError, match=r"cannot be loaded: .*too short|invalid ELF"):
        EfmlLibrary(str(path), NO_BUS, ignore_call).open()


def test_another_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LibraryNotOpenError, match="exports neither EfmlInit nor efmlInit"):
        opened(install_fake("nvml", tmp_path))


def test_the_first_place_that_has_the_library_wins_and_of_several_versions_the_newest(tmp_path: Path) -> None:
    for name in ("x", "1.0", "1.2", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "x" / "lib.so").mkdir()  # a folder of that name is no library
    for name in ("1.0", "1.2", "b"):
        (tmp_path / name / "lib.so").touch()
    assert find_library([f"{tmp_path}/{folder}/lib.so" for folder in ("x", "1.*", "b")]) == tmp_path / "1.2" / "lib.so"
    assert find_library([f"{tmp_path}/x/lib.so"]) is None
    assert "/usr/local/efsmi/*/lib/libefml.so.1" in EFML_PATHS


def test_a_c_string_ends_at_its_nul_whatever_follows() -> None:
    assert decode_text(b"S60 \0garbage\xff") == "S60"
