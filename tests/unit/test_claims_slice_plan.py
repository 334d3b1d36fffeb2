"""The content and order of a node's ResourceSlices."""

from __future__ import annotations

from typing import Any

import pytest

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.cards import Health, Inventory
from gcushare.core.quantities import parse_count
from gcushare.core.units import GIB
from gcushare.device_plugin.claims.slice_plan import SlicePlan, order_cards
from gcushare.vendors import ENFLAME
from gcushare.wire.dra.slices import MEMORY, Device, RequestPolicy
from tests.builders import present
from tests.unit.claims_driver_values import DRIVER, an_inventory

PLAN = SlicePlan(ENFLAME, "node-1", lambda address: "pci0000:3a" if address else "")


def inventory(*sizes_gib: int, unit: str = "1", **card: Any) -> Inventory:
    return an_inventory(*sizes_gib, unit=unit, pci_address="0000:3b:00.0", **card)


def devices(found: Inventory, order: tuple[int, ...] | None = None) -> tuple[Device, ...]:
    return PLAN.build(found, order if order is not None else tuple(card.index for card in found.cards)).devices


def held(index: int, units: int, *, whole: bool = False) -> Assignment:
    return Assignment(PodRef(f"{index}-{units}", "", ""), "", (CardGrant(index, units, whole),))


def test_one_slice_holds_the_whole_pool_of_the_node() -> None:
    only = PLAN.build(inventory(16, 16), (0, 1))
    assert only.pool.resource_slice_count == 1
    assert (only.driver, only.node_name, only.pool.name) == (DRIVER, "node-1", "node-1")


def request_policy(device: Device) -> RequestPolicy:
    return present(device.capacity[MEMORY].request_policy)


def test_a_card_is_one_device_that_claims_share_in_whole_units_or_take_whole() -> None:
    (card,) = devices(inventory(16))
    assert card.allow_multiple_allocations
    assert card.capacity[MEMORY].value == "16Gi"
    policy = request_policy(card)
    assert (policy.valid_range.min, policy.valid_range.step) == ("1Gi", "1Gi")
    assert policy.default == "16Gi", "a claim that names no amount takes the whole card"


def test_a_card_of_one_unit_has_no_step_because_none_would_fit() -> None:
    assert request_policy(devices(inventory(1))[0]).valid_range.step is None


def test_eight_cards_of_192_gib_are_listed_in_mib() -> None:
    found = devices(inventory(*[192] * 8, unit="MiB"))
    assert len(found) == 8
    assert parse_count(found[0].capacity[MEMORY].value) == 192 * GIB
    assert request_policy(found[0]).valid_range.min == "1Mi"


def test_attributes_name_the_card_and_its_place() -> None:
    (card,) = devices(inventory(16))
    assert card.attributes["index"].int == 0
    assert card.attributes["uuid"].string == "uuid-0"
    assert card.attributes["resource.kubernetes.io/pcieRoot"].string == "pci0000:3a"
    assert "numaNode" not in card.attributes


@pytest.mark.parametrize(
    ("state", "keys"),
    [
        pytest.param({"health": Health.UNHEALTHY}, [f"{DRIVER}/sick"], id="sick"),
        pytest.param({"cordoned": True}, [f"{DRIVER}/cordoned"], id="cordoned"),
        pytest.param({}, [], id="usable"),
    ],
)
def test_a_card_that_takes_no_new_pods_is_tainted(state: dict[str, Any], keys: list[str]) -> None:
    for device in devices(inventory(16, **state)):
        assert [(taint.key, taint.effect) for taint in device.taints] == [(key, "NoSchedule") for key in keys]


def test_a_card_without_a_unit_is_not_listed() -> None:
    assert devices(inventory(0)) == ()


def test_binpack_lists_the_fullest_card_first_and_spread_the_emptiest() -> None:
    found, held_units = inventory(16, 16, 16), [held(1, 10), held(2, 4)]
    assert order_cards(found, held_units, "binpack") == (1, 2, 0)
    assert order_cards(found, held_units, "spread") == (0, 2, 1)
    assert [device.name for device in devices(found, (1, 2, 0))][:3] == ["card-1", "card-2", "card-0"]
