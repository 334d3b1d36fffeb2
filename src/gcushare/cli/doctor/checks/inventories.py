"""Does what a node published agree with itself, with the kubelet's message limit, and with what the kubelet counts?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gcushare.cli.doctor.checks.views import inventory_of, plugins_by_node
from gcushare.cli.doctor.facts import Facts, PluginFacts, has_label
from gcushare.cli.doctor.findings import Finding, RemoveAnnotation, ReplaceAnnotation, error, warning
from gcushare.cluster.programs import flag
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Health, Inventory, describe_closure
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.units import MEMORY_UNIT_NAMES, MemoryUnit, finest_unit, parse_memory_unit
from gcushare.vendors import Vendor
from gcushare.wire.annotations.inventory import decode_inventory
from gcushare.wire.kubelet.device_ids import DEVICE_BYTES, KUBELET_MESSAGE_LIMIT_BYTES, check_fits_kubelet, fits_kubelet
from gcushare.wire.nodes import is_named, parse_card_words
from gcushare.wire.objects import Node


def check_readable(facts: Facts) -> Iterator[Finding]:
    """An inventory that cannot be read hides the node's cards from everybody."""
    for vendor in facts.vendors():
        for node in facts.nodes:
            text = node.metadata.annotations.get(vendor.inventory_annotation)
            if text is None:
                continue
            try:
                decode_inventory(text)
            except RemoteContractError as failure:
                yield error(
                    "inventory-unreadable",
                    f"node {node.metadata.name}",
                    f"annotation {vendor.inventory_annotation}: {failure}",
                    "restart the node's plugin, which writes it again; nothing else may write it",
                )


def check_message_limit(facts: Facts) -> Iterator[Finding]:
    """The units must fit into one message to the kubelet; the unit is the one that the plugin is started with."""
    for node, _, inventory, plugin in _inventories(facts):
        unit = _unit_wanted(flag(plugin.pod, "memory-unit") if plugin is not None else None, inventory)
        memory = {card.index: card.card.memory_bytes for card in inventory.cards}
        units = {index: unit.units_in(size) for index, size in memory.items()}
        if unit == inventory.unit:
            units = {card.index: card.units for card in inventory.cards}
        try:
            check_fits_kubelet(units)
        except Refused as refusal:
            total = sum(units.values())
            yield error(
                "message-limit",
                f"node {node.metadata.name}",
                f"{len(units)} cards in units of {unit.label} are {total} units, a message of {total * DEVICE_BYTES} "
                f"bytes of {KUBELET_MESSAGE_LIMIT_BYTES}: {refusal}",
                _coarser_unit(memory),
            )


def _coarser_unit(memory: dict[int, int]) -> str:
    def fits(units: Sequence[int]) -> bool:
        return fits_kubelet(dict(zip(memory, units, strict=True)))

    finest = finest_unit(list(memory.values()), MEMORY_UNIT_NAMES, fits)
    if finest is None:
        return "no unit fits: share fewer cards on this node"
    return f"start the plugin with --memory-unit {finest.name}, the finest that fits, or with auto"


def check_counts(facts: Facts) -> Iterator[Finding]:
    """Capacity and allocatable must be what the inventory says."""
    for node, vendor, inventory, plugin in _inventories(facts):
        if plugin is None or (plugin.status is not None and plugin.status.problems):
            continue  # found elsewhere, with its cause
        if SERVES_MEMORY in inventory.modes:
            yield from _check_units(node, vendor, inventory)
        count = node.status.capacity.get(vendor.count_resource)
        if count != str(len(inventory.cards)):
            yield warning(
                "card-count",
                f"node {node.metadata.name}",
                f"{vendor.count_resource} is {count or 'missing'}, and the inventory has {len(inventory.cards)} cards",
                "the plugin writes it within a second: see its log for why it may not write nodes/status",
            )


def _check_units(node: Node, vendor: Vendor, inventory: Inventory) -> Iterator[Finding]:
    capacity = node.status.capacity.get(vendor.memory_resource, "0")
    allocatable = node.status.allocatable.get(vendor.memory_resource, "0")
    if not (capacity.isdecimal() and allocatable.isdecimal()) or int(capacity) == 0:
        return  # 0 has a finding of its own
    total = inventory.total_units
    # The kubelet counts ids that are not healthy as capacity. Those of a cordoned card are healthy while pods hold
    # them, and of a node that grants whole cards too, the cards in such use are withheld.
    most = sum(card.units for card in inventory.cards if card.health is Health.HEALTHY)
    least = sum(card.units for card in inventory.cards if card.is_usable) if SERVES_WHOLE not in inventory.modes else 0
    if int(capacity) != total or not least <= int(allocatable) <= most:
        yield error(
            "inventory-capacity",
            f"node {node.metadata.name}",
            f"the inventory has {total} units, {most} of them on healthy cards; the kubelet counts {capacity} "
            f"{vendor.memory_resource}, {allocatable} of them allocatable",
            "the scheduler and the kubelet count differently: restart the plugin's pod; if it stays, another plugin "
            f"may have registered {vendor.memory_resource}",
        )


def check_cards(facts: Facts) -> Iterator[Finding]:
    """Cards that are sick."""
    for node, _, inventory, _ in _inventories(facts):
        for card in inventory.cards:
            if card.health is not Health.HEALTHY:
                yield warning(
                    "sick-card",
                    f"node {node.metadata.name} card {card.index}",
                    f"{card.reason or 'no reason is reported'}; its {card.units} units take no new pods",
                    "pods on it go on as far as the hardware lets them: move them, and have the card looked after",
                )


def check_closures(facts: Facts) -> Iterator[Finding]:
    """Cards that are closed to one use, because containers of a pod deleted by force may still have them."""
    for node, _, inventory, _ in _inventories(facts):
        for card in inventory.cards:
            for closure in card.closures:
                yield warning(
                    "closed-card",
                    f"node {node.metadata.name} card {card.index}",
                    f"it is {describe_closure(closure)}",
                    "end the containers on the node, or wait; --longest-wait-for-containers of the plugin limits the "
                    "wait, and with --pod-use the card opens as soon as they have ended",
                )


def check_holders(facts: Facts) -> Iterator[Finding]:
    """Pods that hold cards of which their own record cannot tell."""
    for node, vendor, inventory, _ in _inventories(facts):
        for holder in inventory.unrecorded:
            cards = sorted({*holder.units, *holder.whole})
            yield warning(
                "unrecorded-holder",
                f"node {node.metadata.name}",
                f"{holder.pod} was given {sum(holder.units.values())} units and {len(holder.whole)} whole cards, of "
                f"card {', '.join(map(str, cards))}, and no record of the pod says so: its request is none that is "
                "granted, or the plugin does not see the pod. The scheduler extender counts it",
                f"correct the pod's request for {vendor.memory_resource}, or delete the pod",
            )


def check_cordons(facts: Facts) -> Iterator[Finding]:
    """A cordon that names no card cordons nothing, and nobody notices."""
    for node, vendor, inventory, _ in _inventories(facts):
        text = node.metadata.annotations.get(vendor.cordon_annotation)
        if text is None:
            continue
        words = parse_card_words(text)
        known = {word for word in words if any(is_named(card.card, frozenset({word})) for card in inventory.cards)}
        if known == words:
            continue
        name, key = node.metadata.name, vendor.cordon_annotation
        kept = ",".join(word for word in (each.strip() for each in text.split(",")) if word in known)
        yield warning(
            "cordon-unknown-card",
            f"node {name}",
            f"{key} names {', '.join(sorted(words - known))}, and its cards are "
            f"{', '.join(f'{card.index} ({card.card.uuid})' for card in inventory.cards) or 'none'}",
            "write indexes or uuids of cards that are there; a card that was replaced has another uuid",
            ReplaceAnnotation(name, key, text, kept) if kept else RemoveAnnotation(name, key, text),
        )


def _inventories(facts: Facts) -> Iterator[tuple[Node, Vendor, Inventory, PluginFacts | None]]:
    """The readable inventories of nodes that share cards, with the nodes' plugins."""
    for vendor in facts.vendors():
        plugins = plugins_by_node(facts, vendor)
        for node in facts.nodes:
            inventory, plugin = inventory_of(node, vendor), plugins.get(node.metadata.name)
            if inventory is not None and (has_label(node, vendor) or plugin is not None):
                yield node, vendor, inventory, plugin


def _unit_wanted(name: str | None, inventory: Inventory) -> MemoryUnit:
    return parse_memory_unit(name) if name in MEMORY_UNIT_NAMES and name is not None else inventory.unit
