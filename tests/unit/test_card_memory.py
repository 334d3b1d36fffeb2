"""How much of a card is offered: less what its driver keeps, or a share of a machine whose card has no memory."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.cards.unified_memory import of_machine
from gcushare.core.cards import InventoryCard
from gcushare.core.errors import DeviceError
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.node.cards import offer_card
from gcushare.node.node_settings import AUTO_RESERVE, NO_RESERVE, Reserve
from gcushare.vendors import ALIYUN
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from tests.unit.node_agent_rig import make_rig

MIB = 1 << 20
T4 = InventoryCard(index=0, uuid="T4", memory_bytes=15360 * MIB, driver_bytes=450 * MIB)


@pytest.mark.parametrize(
    ("unit", "reserve", "units"),
    [
        pytest.param("GiB", AUTO_RESERVE, 14, id="a unit less"),
        pytest.param("MiB", AUTO_RESERVE, 14910, id="exactly"),
        pytest.param("GiB", NO_RESERVE, 15, id="all, as gpushare counts"),
        pytest.param("GiB", Reserve(bytes=450 * MIB), 14, id="an amount"),
    ],
)
def test_what_the_driver_keeps_is_not_offered(unit: str, reserve: Reserve, units: int) -> None:
    card = offer_card(T4, parse_memory_unit(unit), reserve=reserve, cordoned=frozenset())
    assert card.units == units
    assert card.units + card.reserved_units == parse_memory_unit(unit).units_in(T4.memory_bytes)


def test_what_fits_no_unit_covers_what_the_driver_keeps() -> None:
    card = InventoryCard(index=0, uuid="u", memory_bytes=24564 * MIB, driver_bytes=300 * MIB)
    offered = offer_card(card, parse_memory_unit("GiB"), reserve=AUTO_RESERVE, cordoned=frozenset())
    assert (offered.units, offered.reserved_units) == (23, 0)


def test_of_a_card_smaller_than_a_unit_that_a_pod_holds_only_what_is_left_is_given() -> None:
    rig = make_rig(unit="GiB", vendor=ALIYUN)
    ids = device_ids_of_card(0, 15)
    rig.cards(T4)
    rig.hold(a=ids[14:])
    assert rig.listed() == (15, 14), "one of the 14 is held"
    rig.hold(a=ids[4:14])
    assert rig.listed() == (14, 14)
    rig.cards(msgspec.structs.replace(T4, memory_bytes=12 * GIB, driver_bytes=0))
    assert (rig.listed(), set(ids[4:14]) - set(rig.healthy())) == ((14, 12), set())
    rig.hold(a=ids[4:14], b=rig.healthy()[:2])
    assert rig.listed() == (14, 12), "nothing is left"
    rig.hold(b=ids[:2])
    assert rig.listed() == (12, 12)


@pytest.mark.parametrize(
    ("kib", "offered"),
    [
        pytest.param(127_600_748, 117_596_849_357, id="GB10"),
        pytest.param(32 << 20, 24 * GIB, id="at least 8 GiB for the system"),
        pytest.param(4 << 20, 0, id="a machine that is too small"),
    ],
)
def test_auto_leaves_a_tenth_of_the_machine_to_its_system(kib: int, offered: int) -> None:
    assert of_machine(f"MemTotal:       {kib} kB\nMemFree:  1 kB\n") == offered


def test_a_machine_that_does_not_say_its_memory_is_refused_with_the_setting() -> None:
    with pytest.raises(DeviceError, match="no MemTotal: say with --unified-memory"):
        of_machine("MemFree: 1 kB")
