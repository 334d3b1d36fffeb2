"""The PCI bus, over a folder laid out like sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.cards.pci import PciBus, parse_pci_address, pci_address
from gcushare.cards.ports import HealthReading, LinkLevel

FIRST, SECOND = "0000:3d:00.0", "0000:3e:00.0"

LOST = "the card fell off the bus: PCI device {} is gone"


def bus_of(folder: Path, **cards: tuple[str, int]) -> PciBus:
    """Lay sysfs out: each card's path of bridges and its NUMA node."""
    listed = folder / "devices"
    listed.mkdir()
    for address, (bridges, node) in cards.items():
        real = folder / "real" / bridges / address
        real.mkdir(parents=True)
        (real / "numa_node").write_text(f"{node}\n")
        (listed / address).symlink_to(real)
    return PciBus(listed)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("00000000:3A:00.0", "0000:3a:00.0", id="nvml writes eight digits of domain"),
        pytest.param("0000:3a:00.0", "0000:3a:00.0", id="the kernel's form"),
        pytest.param("00010000:3a:1f.7", "10000:3a:1f.7", id="a domain beyond four digits"),
        pytest.param("3a:00.0", "", id="no domain"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_addresses_are_brought_into_the_kernels_form(text: str, address: str) -> None:
    assert parse_pci_address(text) == address


def test_an_address_is_written_from_its_parts() -> None:
    assert pci_address(0, 0x3D, 0, 0) == FIRST


def test_only_a_card_that_fell_off_the_bus_is_lost(tmp_path: Path) -> None:
    bus = bus_of(tmp_path, **{FIRST: ("pci0000:3a/0000:3a:00.0", 0)})
    assert bus.find_lost(FIRST) is None
    lost = bus.find_lost(SECOND)
    assert lost == HealthReading(healthy=False, reason=LOST.format(SECOND), conclusive=True, lost=True)


@pytest.mark.parametrize("address", [FIRST, ""])
def test_a_machine_that_shows_no_bus_condemns_no_card(tmp_path: Path, address: str) -> None:
    assert PciBus(tmp_path / "missing").find_lost(address) is None


def test_the_numa_node_is_none_if_the_firmware_does_not_say(tmp_path: Path) -> None:
    bus = bus_of(tmp_path, **{FIRST: ("pci0000:3a", 1), SECOND: ("pci0000:3b", -1)})
    assert [bus.numa_node(address) for address in (FIRST, SECOND, "0000:ff:00.0", "")] == [1, None, None, None]


@pytest.mark.parametrize(
    ("first", "second", "level"),
    [
        pytest.param(
            ("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:00.0", 0),
            ("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:01.0", 0),
            LinkLevel.SWITCH,
            id="two ports of one switch",
        ),
        pytest.param(
            ("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:00.0/0000:40:00.0/0000:41:00.0", 0),
            ("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:01.0/0000:50:00.0/0000:51:00.0", 0),
            LinkLevel.ROOT,
            id="switches below a switch",
        ),
        pytest.param(
            ("pci0000:3a/0000:3a:00.0", 0),
            ("pci0000:3a/0000:3a:02.0", 0),
            LinkLevel.ROOT,
            id="two ports of one root complex",
        ),
        pytest.param(("pci0000:3a/0000:3a:00.0", 1), ("pci0000:5a/0000:5a:00.0", 1), LinkLevel.NUMA, id="one node"),
        pytest.param(("pci0000:3a/0000:3a:00.0", 0), ("pci0000:5a/0000:5a:00.0", 1), LinkLevel.SYSTEM, id="two nodes"),
        pytest.param(("pci0000:3a/0000:3a:00.0", -1), ("pci0000:5a/0000:5a:00.0", 1), None, id="no one reports"),
    ],
)
def test_two_cards_are_as_near_as_the_bridges_they_share(
    tmp_path: Path, first: tuple[str, int], second: tuple[str, int], level: LinkLevel | None
) -> None:
    assert bus_of(tmp_path, **{FIRST: first, SECOND: second}).link_level(FIRST, SECOND) == level
