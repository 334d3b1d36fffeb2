"""What this node believes, as one document: cards, units, pods with what the kubelet gave them, and every problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gcushare._version import __version__
from gcushare.core.cards import Inventory
from gcushare.device_plugin.metrics import Observed
from gcushare.device_plugin.pod_book import PodEntry, peak_per_card


def describe_node(observed: Observed) -> dict[str, Any]:
    """Describe the plugin's state; for people and for support, not a contract between programs."""
    inventory = observed.agent.inventory
    return {
        "version": __version__,
        "vendor": observed.vendor,
        "node": observed.node,
        "problems": problems(observed),
        "unit": inventory.unit.name if inventory is not None else None,
        "cards": _cards(inventory, observed) if inventory is not None else [],
        "leftOut": [
            {"index": card.index, "uuid": card.uuid, "reason": card.reason}
            for card in (inventory.left_out if inventory is not None else ())
        ],
        "pods": [_pod(entry) for _, entry in sorted(observed.book.entries.items())],
        "unreadablePods": [{"pod": str(pod.pod), "reason": pod.reason} for pod in observed.book.unreadable],
        "registrations": observed.endpoint.registrations,
        "corrections": observed.keeper.counters.corrections,
    }


def problems(observed: Observed) -> dict[str, str]:
    """Everything that is wrong now, by the part that says so; empty when all is well."""
    parts: Mapping[str, str] = {
        "cards": observed.agent.problem,
        "registration": observed.endpoint.problem,
        "kubeletRecord": observed.keeper.problem,
    }
    return {name: problem for name, problem in parts.items() if problem}


def _cards(inventory: Inventory, observed: Observed) -> list[dict[str, Any]]:
    held = observed.book.held_units()
    promised = observed.book.promised()
    return [
        {
            "index": card.index,
            "uuid": card.card.uuid,
            "model": card.card.model,
            "serial": card.card.serial,
            "pci": card.card.pci_address,
            "numaNode": card.card.numa_node,
            "memoryBytes": card.card.memory_bytes,
            "units": card.units,
            "reservedUnits": card.reserved_units,
            "lostBytes": inventory.unit.remainder_bytes(card.card.memory_bytes),
            "heldUnits": held.get(card.index, 0),
            "promisedUnits": promised.get(card.index, 0),
            "health": card.health.value,
            "reason": card.reason,
            "cordoned": card.cordoned,
        }
        for card in inventory.cards
    ]


def _pod(entry: PodEntry) -> dict[str, Any]:
    return {
        "pod": str(entry.ref),
        "uid": entry.ref.uid,
        "units": entry.request.total_units,
        "recordedCards": list(entry.record.card_indexes) if entry.record is not None else None,
        "assigned": entry.record.assigned if entry.record is not None else False,
        "heldByCard": {str(index): units for index, units in sorted(peak_per_card(entry).items())},
        "containers": {name: {str(i): n for i, n in sorted(counts.items())} for name, counts in entry.held.items()},
        "unconfirmed": sorted(entry.guessed),
    }
