"""The content of the node's ResourceSlice: pure, from the inventory and the claims that are prepared.

A card is one device. Claims for memory name an amount and share the device. A claim for a whole card names none, so it
consumes the default of the device's memory, which is the whole card. So one sum of memory keeps both uses apart. Two
devices and a counter per card would say the same, but kube-scheduler 1.36 counts the counters of every pool for every
node that it tries (ADR 38).

The scheduler takes the first device of the slice that fits. So cards are listed in the order in which the placement
policy prefers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gcushare.core.assignments import Assignment
from gcushare.core.cards import BOTH_MODES, Health, Inventory, InventoryCard
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES
from gcushare.core.requests import CardRequest
from gcushare.vendors import Vendor
from gcushare.wire.dra.claim_names import device_name, unit_bytes
from gcushare.wire.dra.slices import (
    MEMORY,
    NO_SCHEDULE,
    PCIE_ROOT,
    Attribute,
    Capacity,
    Device,
    DeviceTaint,
    RequestPolicy,
    ResourcePool,
    SliceSpec,
    ValidRange,
    quantity,
    text_attribute,
)


def order_cards(inventory: Inventory, assignments: Iterable[Assignment], policy: str) -> tuple[int, ...]:
    """The cards' indexes in the order in which ``policy`` prefers them for one unit more."""
    node = NodeState("")
    node.set_cards(inventory.cards, inventory.unit, BOTH_MODES)
    for assignment in assignments:
        node.add(assignment)
    rank, request = POLICIES[policy].rank_card, CardRequest(units=1)
    states = [node.cards[card.index] for card in inventory.cards]
    ordered = sorted(states, key=lambda state: (rank(state, request), state.index))
    return tuple(state.index for state in ordered)


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What does not change in a node's slice; ``pci_root`` returns a card's root complex, "" if unknown."""

    vendor: Vendor
    node: str
    pci_root: Callable[[str], str] = lambda _address: ""

    def build(self, inventory: Inventory, order: Sequence[int]) -> SliceSpec:
        """Build the slice with the cards in this order; a card without a unit is none of its devices."""
        cards = {card.index: card for card in inventory.cards if card.units > 0}
        return SliceSpec(
            driver=self.vendor.claims.driver,
            pool=ResourcePool(name=self.node, resource_slice_count=1),
            node_name=self.node,
            devices=tuple(self._device(cards[index], inventory) for index in order if index in cards),
        )

    def _device(self, card: InventoryCard, inventory: Inventory) -> Device:
        step = unit_bytes(inventory.unit)
        whole, unit = quantity(card.units * step), quantity(step)
        # The API server refuses a step that leads beyond the card.
        valid = ValidRange(min=unit, step=unit if card.units > 1 else None)
        driver = self.vendor.claims.driver
        taints = ["sick"] if card.health is Health.UNHEALTHY else []
        taints += ["cordoned"] if card.cordoned else []
        return Device(
            name=device_name(card.index),
            attributes=self._attributes(card, inventory),
            capacity={MEMORY: Capacity(value=whole, request_policy=RequestPolicy(default=whole, valid_range=valid))},
            taints=tuple(DeviceTaint(key=f"{driver}/{key}", effect=NO_SCHEDULE, value="true") for key in taints),
            allow_multiple_allocations=True,
        )

    def _attributes(self, card: InventoryCard, inventory: Inventory) -> dict[str, Attribute]:
        found = {"index": Attribute(int=card.index), "memoryUnit": Attribute(string=inventory.unit.name)}
        texts = {"uuid": card.uuid, "model": card.model, "linkGroup": card.link_group}
        found |= {name: text_attribute(text) for name, text in texts.items() if text}
        if card.numa_node is not None:
            found["numaNode"] = Attribute(int=card.numa_node)
        if root := self.pci_root(card.pci_address):
            found[PCIE_ROOT] = text_attribute(root)
        return found
