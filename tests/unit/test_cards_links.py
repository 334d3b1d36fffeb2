"""What is near to a card: the PCI bus over a folder laid out like sysfs, and groups of cards that have links."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gcushare.cards.errors import LibraryNotOpenError
from gcushare.cards.links import LinkTable
from gcushare.cards.pci import PciBus, parse_pci_address, pci_address
from gcushare.cards.ports import CardReport, HealthEvent, HealthReading
from gcushare.core.cards import Card
from gcushare.core.errors import DeviceError

CARDS = tuple(Card(index=index, uuid=f"uuid-{index}", memory_bytes=1 << 30) for index in range(4))
FIRST, SECOND = "0000:3d:00.0", "0000:3e:00.0"
LOST = "the card fell off the bus: PCI device {} is gone"


class Wired:
    """A source that knows links by index, and counts how often it is asked."""

    name = "wired"

    def __init__(self, **links: bool | DeviceError) -> None:
        self.links = {tuple(map(int, pair.strip("_").split("_"))): link for pair, link in links.items()}
        self.cards = CARDS
        self.asked: list[tuple[int, int]] = []

    async def list_cards(self) -> CardReport:
        return CardReport(cards=self.cards)

    async def are_linked(self, card_a: Card, card_b: Card) -> bool:
        self.asked.append((card_a.index, card_b.index))
        link = self.links.get((card_a.index, card_b.index), False)
        if isinstance(link, DeviceError):
            raise link
        return link

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        return None

    async def close(self) -> None:
        return None


async def groups_of(source: Wired, table: LinkTable | None = None) -> list[str]:
    report = await (table or LinkTable(source)).fill(await source.list_cards())
    return [card.link_group for card in report.cards]


async def test_linked_cards_are_one_group_named_after_its_first() -> None:
    assert await groups_of(Wired(_0_1=True, _2_3=True)) == ["link-0", "link-0", "link-2", "link-2"]
    assert await groups_of(Wired(_1_3=True, _0_3=True)) == ["link-0", "link-0", "", "link-0"], "over a card between"


@pytest.mark.parametrize(
    ("error", "repeated"), [(DeviceError("no answer"), False), (LibraryNotOpenError("the driver is away"), True)]
)
async def test_every_pair_is_asked_once_unless_the_library_is_not_open(error: DeviceError, repeated: bool) -> None:
    source = Wired(_0_1=error, _2_3=True)
    table = LinkTable(source)
    assert await groups_of(source, table) == [""] * 4
    assert source.asked == [(0, 1)], "nor is another pair asked of what does not answer"
    source.links[0, 1] = True
    for _ in range(2):
        assert await groups_of(source, table) == [*(["link-0"] * 2 if repeated else ["", ""]), "link-2", "link-2"]
    assert len(source.asked) == 6 + repeated


async def test_a_card_that_is_replaced_is_asked_about_again() -> None:
    source = Wired(_0_1=True)
    table = LinkTable(source)
    await groups_of(source, table)
    source.asked.clear()
    source.cards = (CARDS[0], msgspec.structs.replace(CARDS[1], uuid="another"), *CARDS[2:])
    source.links.clear()
    assert await groups_of(source, table) == [""] * 4
    assert source.asked == [(0, 1), (1, 2), (1, 3)]


async def test_a_source_that_says_the_groups_itself_is_not_asked() -> None:
    source = Wired(_0_1=True)
    source.cards = (msgspec.structs.replace(CARDS[0], link_group="board"), *CARDS[1:])
    assert await groups_of(source) == ["board", "", "", ""]
    assert source.asked == []


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
    assert (bus.find_lost(SECOND), bus.find_lost(FIRST)) == (None, None), "no card was seen on this bus before"
    lost = bus.find_lost(SECOND)
    assert lost == HealthReading(healthy=False, reason=LOST.format(SECOND), conclusive=True, lost=True)


@pytest.mark.parametrize("address", [FIRST, ""])
def test_a_machine_that_shows_no_bus_condemns_no_card(tmp_path: Path, address: str) -> None:
    assert PciBus(tmp_path / "missing").find_lost(address) is None


def test_the_numa_node_is_none_if_the_firmware_does_not_say(tmp_path: Path) -> None:
    bus = bus_of(tmp_path, **{FIRST: ("pci0000:3a", 1), SECOND: ("pci0000:3b", -1)})
    assert [bus.numa_node(address) for address in (FIRST, SECOND, "0000:ff:00.0", "")] == [1, None, None, None]


@pytest.mark.parametrize(
    ("first", "second", "linked"),
    [
        pytest.param("3a:00.0/0000:3b:00.0/0000:3c:00.0", "3a:00.0/0000:3b:00.0/0000:3c:01.0", True, id="one switch"),
        pytest.param(
            "3a:00.0/0000:3b:00.0/0000:3c:00.0/0000:40:00.0/0000:41:00.0",
            "3a:00.0/0000:3b:00.0/0000:3c:01.0/0000:50:00.0/0000:51:00.0",
            False,
            id="switches below a switch",
        ),
        pytest.param("3a:00.0", "3a:02.0", False, id="two ports of one root complex"),
    ],
)
def test_two_cards_are_linked_by_one_switch(tmp_path: Path, first: str, second: str, linked: bool) -> None:
    paths = {FIRST: (f"pci0000:3a/0000:{first}", 0), SECOND: (f"pci0000:3a/0000:{second}", 0)}
    assert bus_of(tmp_path, **paths).are_linked(FIRST, SECOND) is linked


def test_cards_whose_place_is_not_known_are_not_linked(tmp_path: Path) -> None:
    assert not bus_of(tmp_path, **{FIRST: ("pci0000:3a/0000:3a:00.0", 0)}).are_linked(FIRST, "")
