"""Which cards of a node are sick or held without a record, and does what it published agree with the kubelet?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gcushare.cluster.diagnosis.checks.views import VendorNode, sharing_nodes, vendor_nodes
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, error, warning
from gcushare.cluster.programs import flag
from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE, Health, Inventory
from gcushare.core.errors import RemoteContractError
from gcushare.core.quantities import parse_count
from gcushare.core.units import MEMORY_UNIT_NAMES, MemoryUnit, choose_counted, parse_memory_unit
from gcushare.core.wording import counted, some_names
from gcushare.wire.nodes import is_named, parse_card_names
from gcushare.wire.pods import is_mirror


def check_readable(facts: Facts) -> Iterator[Finding]:
    """An inventory that cannot be read hides the node's cards from every program."""
    for each in vendor_nodes(facts):
        if each.problem:
            yield each.error(
                "inventory-unreadable",
                f"annotation {each.vendor.inventory_annotation}: {each.problem}",
                "restart the node's plugin, which writes it again; nothing else may write it",
            )


def check_counts(facts: Facts) -> Iterator[Finding]:
    """Capacity and allocatable must be what the inventory says, of memory and of whole cards."""
    for each, inventory in sharing_nodes(facts):
        if each.plugin is None or each.plugin_problems or SERVES_CLAIMS in inventory.modes:
            continue  # found elsewhere, with its cause; or the Node has no resources
        vendor = each.vendor
        if SERVES_MEMORY in inventory.modes:
            yield from _check_units(each, inventory)
        capacity = each.capacity(vendor.whole_card_resource)
        if SERVES_WHOLE in inventory.modes and (status := each.plugin.status) is not None:
            # A card that is gone stays listed while a pod holds it.
            held = (index for pod in status.pods if pod.whole for index in pod.held_by_card)
            cards = len(inventory.units_by_card.keys() | set(held))
            if capacity != str(cards):
                yield each.error(
                    "whole-card-count",
                    f"its plugin serves {counted(cards, 'whole card')}, the kubelet counts {capacity} "
                    f"{vendor.whole_card_resource}",
                    "see the plugin's log for its registration; more than there are come from another plugin of the "
                    "same resource, which must not run on this node",
                )


def _check_units(each: VendorNode, inventory: Inventory) -> Iterator[Finding]:
    resource = each.vendor.memory_resource
    capacity, allocatable = each.capacity(resource), each.node.status.allocatable.get(resource, "0")
    try:
        known, offered = parse_count(capacity), parse_count(allocatable)
    except RemoteContractError:
        return  # the API server stores valid quantities only
    if known == 0:
        return  # it has a finding of its own
    total = inventory.total_units
    # The kubelet counts ids that are not healthy as capacity. Those of a sick or cordoned card are healthy while pods
    # hold them, and so are those of a card that is gone, or smaller than what pods hold. Of a node that grants whole
    # cards too, the cards in such use are withheld.
    held = _held_units(each)
    lost = sum(units for index, units in held.items() if units > inventory.units_by_card.get(index, 0))
    most = lost + sum(c.units if c.health is Health.HEALTHY else min(c.units, held[c.index]) for c in inventory.cards)
    least = sum(card.units for card in inventory.cards if card.is_usable) if SERVES_WHOLE not in inventory.modes else 0
    if not total <= known <= total + lost or not least <= offered <= most:
        yield each.error(
            "inventory-capacity",
            f"the inventory has {counted(total, 'unit')}, {most} of them on healthy cards or held; the kubelet counts "
            f"{capacity} {resource}, {allocatable} of them allocatable",
            "the scheduler and the kubelet count differently: restart the plugin's pod; if it stays, another plugin "
            f"may have registered {resource}. With another unit's count the extender places no pod on the node",
        )


def _held_units(each: VendorNode) -> Counter[int]:
    """Units of memory that pods hold by card, also of cards that are lost, as far as the plugin says."""
    held: Counter[int] = Counter()
    if each.plugin is not None and (status := each.plugin.status) is not None:
        held.update({card.index: card.unrecorded_units for card in status.cards})
        for pod in status.pods:
            held.update({} if pod.whole else pod.held_by_card)
    return held


def check_units(facts: Facts) -> Iterator[Finding]:
    """Nodes that count memory otherwise than the cluster: of the same number a pod gets another amount there."""
    flags = (flag(each.pod, "memory-unit") for each in facts.extender.replicas if each.pod is not None)
    given = next((each for each in flags if each in MEMORY_UNIT_NAMES), "")
    for vendor in facts.vendors():
        names: dict[MemoryUnit, list[str]] = {}
        for each, inventory in sharing_nodes(facts):
            if each.vendor == vendor and SERVES_MEMORY in inventory.modes:
                names.setdefault(inventory.unit, []).append(each.name)
        own = parse_memory_unit(given or vendor.default_unit)
        nodes_of = Counter(unit.per_gib for unit, found in names.items() for _ in found)
        per_gib = choose_counted(nodes_of, own.per_gib, is_given=bool(given))
        odd = {unit: found for unit, found in names.items() if unit.per_gib != per_gib}
        if per_gib is None or not odd:
            continue
        wanted = own if per_gib == own.per_gib else next(unit for unit in names if unit.per_gib == per_gib)
        shown = ", ".join(f"{unit.label} on {some_names(sorted(found))}" for unit, found in odd.items())
        make, effect = warning, "pods without the annotation gcushare.io/memory-unit get no cards there"
        if not facts.extender.replicas:
            make, effect = error, "without the extender nothing keeps such pods off, and they get another amount there"
        yield make(
            "units-differ",
            "cluster",
            f"pods count {vendor.memory_resource} in {wanted.label} unless they say otherwise, and nodes in {shown}: "
            f"{effect}",
            "give all nodes one memoryUnit, and the extender's chart the same one; or name the unit in the pods that "
            "are for these nodes",
        )


def check_cards(facts: Facts) -> Iterator[Finding]:
    """Cards that are sick."""
    for each, inventory in sharing_nodes(facts):
        for card in inventory.cards:
            subject = f"{each.subject} card {card.index}"
            if card.health is not Health.HEALTHY:
                yield warning(
                    "sick-card",
                    subject,
                    f"{card.reason or 'no reason is reported'}; its {counted(card.units, 'unit', 'take')} no new pods",
                    "pods on it run on if the hardware lets them: move them, and have the card checked",
                )


def check_holders(facts: Facts) -> Iterator[Finding]:
    """Pods that hold cards which their own record does not name. Static pods have none."""
    static = {pod.key for pod in facts.pods if is_mirror(pod.metadata.annotations)}
    for each, inventory in sharing_nodes(facts):
        for holder in (holder for holder in inventory.unrecorded if holder.pod not in static):
            cards = sorted({*holder.units, *holder.whole})
            yield each.warning(
                "unrecorded-holder",
                f"{holder.pod} was given {counted(sum(holder.units.values()), 'unit')} and "
                f"{counted(len(holder.whole), 'whole card')}, of "
                f"card {', '.join(map(str, cards))}, and no record of the pod says so: its request is none that is "
                "granted, the plugin does not see the pod, or something removes or refuses its record. The scheduler "
                "extender counts it",
                f"correct the pod's request for {each.vendor.memory_resource}, or find what removes its annotations, "
                "such as the syncer of a virtual cluster; the plugin's podRecords and the pod's Events say more",
            )


def check_cordons(facts: Facts) -> Iterator[Finding]:
    """A cordon that names an unknown card has no effect, and nothing else reports it."""
    for each, inventory in sharing_nodes(facts):
        key = each.vendor.cordon_annotation
        names = parse_card_names(each.node.metadata.annotations.get(key, ""))
        known = {name for name in names if any(is_named(card, frozenset({name})) for card in inventory.cards)}
        if known == names:
            continue
        yield each.warning(
            "cordon-unknown-card",
            f"{key} names {', '.join(sorted(names - known))}, and its cards are "
            f"{', '.join(f'{card.index} ({card.uuid})' for card in inventory.cards) or 'none'}",
            "write indexes or uuids of cards that are there; a card that was replaced has another uuid",
        )
