"""Nodes that are objects only, pods for them, and what their records say: counted from the annotations alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias

from gcushare.core.cards import Inventory, InventoryCard
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.annotations import decode_record
from gcushare.wire.nodes import decode_inventory, encode_inventory
from gcushare_playground.picture import node_of

JsonObject: TypeAlias = dict[str, Any]


def node(name: str, *card_units: int, vendor: Vendor = ENFLAME) -> JsonObject:
    """Write a Node as it stands once its kubelet and our plugin have published it."""
    unit = parse_memory_unit(vendor.default_unit)
    cards = tuple(
        InventoryCard(index=index, uuid=f"{name}-{index}", memory_bytes=units * GIB, units=units)
        for index, units in enumerate(card_units)
    )
    key, _, value = vendor.node_label.partition("=")
    amounts = {
        "cpu": "64",
        "memory": "256Gi",
        "pods": "500",
        vendor.memory_resource: str(sum(card_units)),
        vendor.count_resource: str(len(card_units)),
    }
    return {
        "metadata": {
            "name": name,
            "labels": {key: value, "kubernetes.io/hostname": name},
            "annotations": {vendor.inventory_annotation: encode_inventory(Inventory(unit=unit, cards=cards))},
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(name: str, units: int, *, vendor: Vendor = ENFLAME, whole: int = 0, **spec: Any) -> JsonObject:
    """Write a pod of one container that asks for units, or for whole cards; without either it is one like any other."""
    limits = {vendor.memory_resource: str(units)} if units else {}
    limits |= {vendor.whole_card_resource: str(whole)} if whole else {}
    container = {"name": "main", "image": "example.invalid/image:1", "resources": {"limits": limits}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}}


def card_of(pod: JsonObject, vendor: Vendor = ENFLAME) -> tuple[int, ...] | None:
    """The cards that a pod's record names."""
    record = decode_record(vendor, pod["metadata"].get("annotations") or {})
    return None if record is None else record.card_indexes


def count_used(pods: Iterable[JsonObject], vendor: Vendor = ENFLAME) -> Counter[tuple[str, int]]:
    """Sum the units of bound pods per node and card, from their annotations.

    Raises:
        AssertionError: a bound pod that asks for memory has no record of one card.
    """
    used: Counter[tuple[str, int]] = Counter()
    for each in pods:
        if not node_of(each):
            continue
        record = decode_record(vendor, each["metadata"].get("annotations") or {})
        assert record is not None, f"{each['metadata']['name']} is bound without a record"
        (card,) = record.card_indexes
        used[node_of(each), card] += record.pod_units
    return used


def find_overcommitted(
    pods: Iterable[JsonObject], nodes: Iterable[JsonObject], vendor: Vendor = ENFLAME
) -> dict[tuple[str, int], tuple[int, int]]:
    """Find cards with more units granted than they have: (used, has) by node and card."""
    has: dict[tuple[str, int], int] = {}
    for each in nodes:
        inventory = decode_inventory(each["metadata"]["annotations"][vendor.inventory_annotation])
        has |= {(each["metadata"]["name"], card.index): card.units for card in inventory.cards}
    used = count_used(pods, vendor)
    return {card: (units, has.get(card, 0)) for card, units in used.items() if units > has.get(card, 0)}
