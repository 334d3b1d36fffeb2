import pytest

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Health, InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.units import GIB
from gcushare.device_plugin.node.inventory import Offer, plan_inventory
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.node.node_settings import Reserve
from gcushare.vendors import ALIYUN, ENFLAME


def cards(*gib: float, sick: tuple[int, ...] = ()) -> CardsSnapshot:
    states = (
        InventoryCard(
            index=index,
            uuid=f"uuid-{index}",
            memory_bytes=int(size * GIB),
            health=Health.UNHEALTHY if index in sick else Health.HEALTHY,
            reason="broken" if index in sick else "",
        )
        for index, size in enumerate(gib)
    )
    return CardsSnapshot(tuple(states))


def offer(unit: str = "1", **changes: object) -> Offer:
    return Offer(vendor=ENFLAME, unit=unit, **changes)  # type: ignore[arg-type]  # a test's shorthand


def test_cards_of_one_node_may_differ_in_size_and_health() -> None:
    inventory = plan_inventory(cards(16, 32.5, sick=(1,)), offer())
    assert [(card.units, card.health) for card in inventory.cards] == [(16, Health.HEALTHY), (32, Health.UNHEALTHY)]
    assert inventory.cards[1].reason == "broken"


def test_8_cards_of_32_gb_at_a_thousandth_which_the_manual_calls_impossible() -> None:
    assert plan_inventory(cards(*[32] * 8), offer("0.001")).total_units == 256_000


def test_8_cards_of_32_gib_in_mib_are_exactly_what_the_kubelet_takes() -> None:
    assert plan_inventory(cards(*[32] * 8), Offer(vendor=ALIYUN, unit="MiB")).total_units == 262_144


def test_what_does_not_fit_names_unit_cards_bytes_limit_and_the_finest_that_fits() -> None:
    with pytest.raises(Refused) as caught:
        plan_inventory(cards(*[80] * 8), offer("0.001"))
    text = str(caught.value)
    assert "memory unit '0.001' with 8 cards gives 640000 units, a message of 10392592 bytes of 4194304" in text
    assert "the finest unit that fits is 0.01" in text


@pytest.mark.parametrize(("gib", "unit"), [(16, "0.001"), (32, "0.001"), (80, "0.01"), (1000, "0.01"), (4000, "0.1")])
def test_auto_takes_the_finest_unit_of_the_vendor_that_fits(gib: int, unit: str) -> None:
    assert plan_inventory(cards(*[gib] * 8 if gib < 1000 else [gib]), offer("auto")).unit.name == unit


def test_auto_stays_within_the_vendors_words() -> None:
    assert plan_inventory(cards(32), Offer(vendor=ALIYUN, unit="auto")).unit.name == "MiB"


@pytest.mark.parametrize(
    ("reserve", "units", "reserved"),
    [
        (Reserve(), 16, 0),
        (Reserve(bytes=GIB), 15, 1),
        (Reserve(bytes=GIB + 1), 14, 2),
        (Reserve(percent=5), 15, 1),
        (Reserve(percent=100), 0, 16),
        (Reserve(bytes=99 * GIB), 0, 16),
    ],
)
def test_a_reserve_is_kept_back_in_whole_units(reserve: Reserve, units: int, reserved: int) -> None:
    (card,) = plan_inventory(cards(16), offer(reserve=reserve, mode=GrantMode.BOTH)).cards
    assert (card.units, card.reserved_units) == (units, reserved)


@pytest.mark.parametrize(
    ("sizes", "unit", "reserve"),
    [
        pytest.param((0.25, 0.5), "1", Reserve(), id="small cards"),
        pytest.param((16, 16), "1", Reserve(bytes=20 * GIB), id="all is reserved"),
        pytest.param((8,), "0.1", Reserve(percent=100.0), id="all in percent"),
    ],
)
def test_cards_without_a_single_unit_are_refused_with_the_reason(
    sizes: tuple[float, ...], unit: str, reserve: Reserve
) -> None:
    with pytest.raises(Refused, match=f"as much as one unit, '{unit}', after the reserve: choose a smaller --reserve"):
        plan_inventory(cards(*sizes), offer(unit, reserve=reserve))
    for mode in (GrantMode.WHOLE, GrantMode.BOTH):
        assert plan_inventory(cards(*sizes), offer(unit, reserve=reserve, mode=mode)).total_units == 0
    assert plan_inventory(cards(*sizes, 40), offer(unit, reserve=Reserve())).total_units > 0
