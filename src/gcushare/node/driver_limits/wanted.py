"""Compute the hard limits that pods should have, in bytes of each card. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gcushare.core.assignments import PodRef
from gcushare.core.cards import Inventory
from gcushare.core.over_use.eviction import BURST_MARGIN_BYTES, CardReading
from gcushare.core.over_use.tracking import PolledUse
from gcushare.node.over_use.watch import entitled_bytes
from gcushare.node.pods import NodePods, PodWithCards

Used = Mapping[str, Mapping[int, int]]
"""Bytes that pods use, by pod uid and card index."""


@dataclass(frozen=True, slots=True)
class PodLimit:
    """One pod and its hard limits by card index; ``group_uid`` is the uid in its control group's name.

    ``lent``: how much of them is beyond its grants.
    """

    ref: PodRef
    group_uid: str
    hard: Mapping[int, int]
    lent: Mapping[int, int] = field(default_factory=dict)


def pod_limit(entry: PodWithCards, inventory: Inventory, growth: Mapping[int, int], used: Used) -> PodLimit | None:
    """The limits of a pod with shared memory; None for a pod with whole cards, or without any.

    ``growth``: what each pod that bursts may take of a card beyond what it has. With 0 it keeps what it uses, and gets
    its grant as it frees: the driver takes no limit below what is in use.
    """
    if entry.is_whole:
        return None
    granted = entitled_bytes(entry, inventory)
    most = inventory.unit.bytes_of(entry.limit)
    in_use = used.get(entry.ref.uid, {})
    hard = {
        index: max(size, min(most, max(size, in_use.get(index, 0)) + growth.get(index, 0)))
        for index, size in granted.items()
        if size
    }
    lent = {index: size - granted[index] for index, size in hard.items()}
    return PodLimit(entry.ref, entry.machine_uid or entry.ref.uid, hard, lent) if hard else None


def burst_growth(pods: NodePods, inventory: Inventory, others: Mapping[int, int], used: Used) -> dict[int, int]:
    """Compute by card what each pod that bursts may take more, so that all of them leave the unused grants alone.

    ``others``: bytes of each card that are in use and are in no pod's ``used``; an unknown card lends nothing.
    """
    promised, whole = pods.promised(), pods.promised_whole()
    growth: dict[int, int] = {}
    for card in inventory.cards:
        figures = {
            entry.ref.uid: PolledUse(
                used.get(entry.ref.uid, {}).get(card.index, 0), granted, limit=inventory.unit.bytes_of(entry.limit)
            )
            for entry in pods.entries.values()
            if not entry.is_whole and (granted := entitled_bytes(entry, inventory).get(card.index, 0))
        }
        bursting = sum(each.can_burst for each in figures.values())
        if not bursting or card.index not in others or card.index in whole:
            continue
        kept = inventory.unit.bytes_of(promised.get(card.index, 0))
        in_use = others[card.index] + sum(cards.get(card.index, 0) for cards in used.values())
        reading = CardReading(card.index, card.memory_bytes, in_use, None, figures, promised=kept)
        growth[card.index] = max(0, reading.free - reading.unused_grants - BURST_MARGIN_BYTES) // bursting
    return growth
