"""What the node's ResourceSlices say: pure, from the inventory and the claims that are prepared.

Each card is two devices that consume one counter: a share, which any number of claims take memory of, and the whole
card, which one claim takes. The counter is one, so the scheduler never gives a card in both ways. Counters stand in a
slice of their own, because the API server takes either devices or counters in one.

The scheduler takes the first device that fits, in the order of the slices' names and of the devices in a slice. So
cards are listed in the order in which the placement policy prefers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gcushare.core.cards import BOTH_MODES, Health, Inventory, InventoryCard
from gcushare.core.claims import unit_bytes
from gcushare.core.nodes import Assignment, NodeState
from gcushare.core.placement import POLICIES
from gcushare.core.requests import CardRequest
from gcushare.vendors import Vendor
from gcushare.wire.dra.slices import (
    MAX_COUNTERS,
    MAX_DEVICES,
    MEMORY,
    NO_SCHEDULE,
    PCIE_ROOT,
    Attribute,
    Capacity,
    Counter,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceTaint,
    RequestPolicy,
    ResourcePool,
    SliceSpec,
    ValidRange,
    quantity,
    text_attribute,
    version_attribute,
)

CARDS_PER_SLICE = min(MAX_COUNTERS, MAX_DEVICES // 2)
USE_SHARE, USE_WHOLE = "share", "whole"
"""Values of the attribute ``use``, by which the two DeviceClasses select."""
_ONE = Counter(value="1")
T = TypeVar("T")
_PREFIX, _WHOLE_SUFFIX = "card-", "-whole"


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device of ours: a card by its index, shared or whole."""

    index: int
    whole: bool = False

    @property
    def name(self) -> str:
        """Its name in the slice."""
        return f"{_PREFIX}{self.index}{_WHOLE_SUFFIX if self.whole else ''}"


def parse_device_name(name: str) -> DeviceRef | None:
    """Read a device's name; None if it is not one of ours."""
    stem = name.removesuffix(_WHOLE_SUFFIX)
    digits = stem.removeprefix(_PREFIX)
    if stem == digits or not (digits.isascii() and digits.isdigit()) or len(digits) > 6:
        return None
    found = DeviceRef(int(digits), stem != name)
    return found if found.name == name else None


def order_cards(inventory: Inventory, assignments: Iterable[Assignment], policy: str) -> tuple[int, ...]:
    """The cards' indexes in the order in which ``policy`` prefers them for one unit more."""
    node = NodeState("")
    node.set_cards(inventory.cards, inventory.unit, BOTH_MODES)
    for assignment in assignments:
        node.add(assignment)
    rank, request = POLICIES[policy].rank_card, CardRequest(units=1)
    states = [node.cards[card.index] for card in inventory.cards]
    return tuple(state.index for state in sorted(states, key=lambda state: rank(state, request)))


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What all slices of a node have in common; ``pci_root`` answers with a card's root complex, "" if unknown."""

    vendor: Vendor
    node: str
    pci_root: Callable[[str], str] = lambda _address: ""

    def build(self, inventory: Inventory, order: Sequence[int]) -> tuple[SliceSpec, ...]:
        """Build the slices, cards in this order; none if no card has a unit. Their generation is still to be set."""
        cards = {card.index: card for card in inventory.cards if card.units > 0}
        if not cards:
            return ()
        sets = {
            index: f"cards-{number}"
            for number, indexes in enumerate(_chunks(sorted(cards), MAX_COUNTERS))
            for index in indexes
        }
        listed = [cards[index] for index in order if index in cards]
        chunks = _chunks(listed, CARDS_PER_SLICE)
        pool = ResourcePool(name=self.node, resource_slice_count=1 + len(chunks))
        counters = SliceSpec(
            driver=self.vendor.claims.driver,
            pool=pool,
            node_name=self.node,
            shared_counters=tuple(
                CounterSet(
                    name=name,
                    counters={DeviceRef(index).name: _ONE for index in sets if sets[index] == name},
                )
                for name in dict.fromkeys(sets.values())
            ),
        )
        return (
            counters,
            *(
                SliceSpec(
                    driver=self.vendor.claims.driver,
                    pool=pool,
                    node_name=self.node,
                    devices=tuple(
                        self._device(card, whole, sets[card.index], inventory)
                        for whole in (False, True)
                        for card in chunk
                    ),
                )
                for chunk in chunks
            ),
        )

    def _device(self, card: InventoryCard, whole: bool, counter_set: str, inventory: Inventory) -> Device:
        step = unit_bytes(inventory.unit)
        value, least = quantity(card.units * step), quantity(step)
        policy = None
        if not whole:
            # A step above the smallest amount has to fit into the card, by the API server's validation.
            valid = ValidRange(min=least, step=least if card.units > 1 else None)
            policy = RequestPolicy(default=least, valid_range=valid)
        counter = {DeviceRef(card.index).name: _ONE}
        return Device(
            name=DeviceRef(card.index, whole).name,
            attributes=self._attributes(card, USE_WHOLE if whole else USE_SHARE, inventory),
            capacity={MEMORY: Capacity(value=value, request_policy=policy)},
            consumes_counters=(CounterConsumption(counter_set=counter_set, counters=counter),),
            taints=self._taints(card),
            allow_multiple_allocations=not whole,
        )

    def _attributes(self, card: InventoryCard, use: str, inventory: Inventory) -> dict[str, Attribute]:
        found = {
            "use": Attribute(string=use),
            "index": Attribute(int=card.index),
            "memoryUnit": Attribute(string=inventory.unit.name),
        }
        texts = {"uuid": card.card.uuid, "model": card.card.model, "linkGroup": card.card.link_group}
        found |= {name: text_attribute(text) for name, text in texts.items() if text}
        if card.card.numa_node is not None:
            found["numaNode"] = Attribute(int=card.card.numa_node)
        if inventory.driver:
            found["driverVersion"] = version_attribute(inventory.driver)
        if root := self.pci_root(card.card.pci_address):
            found[PCIE_ROOT] = text_attribute(root)
        return found

    def _taints(self, card: InventoryCard) -> tuple[DeviceTaint, ...]:
        driver = self.vendor.claims.driver
        taints = []
        if card.health is Health.UNHEALTHY:
            taints.append(DeviceTaint(key=f"{driver}/sick", effect=NO_SCHEDULE, value="true"))
        if card.cordoned:
            taints.append(DeviceTaint(key=f"{driver}/cordoned", effect=NO_SCHEDULE, value="true"))
        return tuple(taints)


def _chunks(values: Sequence[T], size: int) -> list[Sequence[T]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
