"""Link groups: which cards are close together, by what the source says of every pair of them."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.cards.errors import CardMovedError, LibraryNotOpenError
from gcushare.cards.links import LinkTable, link_groups
from gcushare.cards.ports import CardReport, HealthEvent, HealthReading, LinkLevel
from gcushare.core.cards import Card, CardUse
from gcushare.core.errors import DeviceError

CARDS = tuple(Card(index=index, uuid=f"uuid-{index}", memory_bytes=1 << 30) for index in range(4))


class Wired:
    """A source that knows links by index, and counts how often it is asked."""

    name = "wired"

    def __init__(self, **levels: LinkLevel | DeviceError | None) -> None:
        self.levels = {tuple(map(int, pair.strip("_").split("_"))): level for pair, level in levels.items()}
        self.cards = CARDS
        self.asked: list[tuple[int, int]] = []

    async def list_cards(self) -> CardReport:
        return CardReport(cards=self.cards)

    async def link_level(self, card_a: Card, card_b: Card) -> LinkLevel | None:
        self.asked.append((card_a.index, card_b.index))
        level = self.levels.get((card_a.index, card_b.index), LinkLevel.SYSTEM)
        if isinstance(level, DeviceError):
            raise level
        return level

    async def health(self, card: Card) -> HealthReading:
        return HealthReading(healthy=True)

    async def use(self, card: Card) -> CardUse:
        return CardUse()

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        return None

    async def close(self) -> None:
        return None


async def groups_of(source: Wired, table: LinkTable | None = None) -> list[str]:
    report = await (table or LinkTable(source)).fill(await source.list_cards())
    return [card.link_group for card in report.cards]


async def test_cards_with_a_near_link_are_one_group_named_after_its_first() -> None:
    source = Wired(_0_1=LinkLevel.FABRIC, _2_3=LinkLevel.SWITCH, _1_2=LinkLevel.ROOT)

    assert await groups_of(source) == ["link-0", "link-0", "link-2", "link-2"]


async def test_links_join_over_a_card_between_them() -> None:
    assert await groups_of(Wired(_1_3=LinkLevel.FABRIC, _0_3=LinkLevel.BOARD)) == ["link-0", "link-0", "", "link-0"]


@pytest.mark.parametrize("level", [None, LinkLevel.ROOT, LinkLevel.NUMA, LinkLevel.SYSTEM])
def test_what_is_far_or_not_known_joins_nothing(level: LinkLevel | None) -> None:
    found = link_groups(CARDS[:2], {("uuid-0", "uuid-1"): level})

    assert found == {"uuid-0": "", "uuid-1": ""}


async def test_every_pair_is_asked_once_also_one_that_is_not_answered() -> None:
    source = Wired(_0_1=LinkLevel.FABRIC, _2_3=DeviceError("no answer"))
    table = LinkTable(source)
    for _ in range(3):
        assert await groups_of(source, table) == ["link-0", "link-0", "", ""]

    assert len(source.asked) == 6


@pytest.mark.parametrize("error", [LibraryNotOpenError("the driver is away"), CardMovedError(0, "uuid-0")])
async def test_pairs_that_could_not_be_asked_are_asked_at_the_next_look(error: DeviceError) -> None:
    source = Wired(_0_1=error, _2_3=LinkLevel.FABRIC)
    table = LinkTable(source)
    assert await groups_of(source, table) == [""] * 4
    assert source.asked == [(0, 1)], "nor is another pair asked of what does not answer"
    source.levels[0, 1] = LinkLevel.FABRIC

    assert await groups_of(source, table) == ["link-0", "link-0", "link-2", "link-2"]


async def test_a_card_that_is_replaced_is_asked_about_again() -> None:
    source = Wired(_0_1=LinkLevel.FABRIC)
    table = LinkTable(source)
    await groups_of(source, table)
    source.asked.clear()
    source.cards = (CARDS[0], msgspec.structs.replace(CARDS[1], uuid="another"), *CARDS[2:])
    source.levels.clear()

    assert await groups_of(source, table) == [""] * 4
    assert source.asked == [(0, 1), (1, 2), (1, 3)]


async def test_a_source_that_says_the_groups_itself_is_not_asked() -> None:
    source = Wired(_0_1=LinkLevel.FABRIC)
    source.cards = (msgspec.structs.replace(CARDS[0], link_group="board"), *CARDS[1:])

    assert await groups_of(source) == ["board", "", "", ""]
    assert source.asked == []
