"""Compute the hard limits that pods should have, in bytes of each card. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gcushare.core.assignments import PodRef
from gcushare.core.cards import Inventory
from gcushare.core.over_use.eviction import BURST_MARGIN_BYTES, CardReading
from gcushare.core.over_use.tracking import PolledUse
from gcushare.core.units import MemoryUnit
from gcushare.node.over_use.watch import entitled_bytes
from gcushare.node.pods import NodePods, PodWithCards, SharedGrant, machine_uids

Amounts = Mapping[str, Mapping[int, int]]
"""Bytes by pod uid and card index."""
LEAST_BYTES = 2 << 20
"""What a pod may use of a card that it does not hold: one page, which no program can do anything with. A driver might
take 0 for no limit."""


@dataclass(frozen=True, slots=True)
class PodLimit:
    """One pod and its hard limits by card index, None for a whole card; cards that are not in here are closed to it.

    ``group_uid`` is the uid in its control group's name. ``lent``: how much of the limits is beyond its grants.
    ``waits``: the cards where it has less than its part, because pods that share its claim use more than theirs.
    """

    ref: PodRef
    group_uid: str
    hard: Mapping[int, int | None]
    lent: Mapping[int, int] = field(default_factory=dict)
    waits: frozenset[int] = frozenset()


def limited_pods(pods: NodePods) -> dict[str, PodWithCards]:
    """The pods that have cards, or for which some are kept, by uid; static ones among them."""
    return {uid: each for uid, each in pods.everyone.items() if uid in pods.entries or each.taken_cards}


def pod_limits(pods: NodePods, inventory: Inventory, others: Mapping[int, int], used: Amounts) -> dict[str, PodLimit]:
    """The limits of all pods with cards, by uid; a pod that waits for whole cards has none yet.

    The driver takes no limit below what is in use: a pod that uses more keeps that, and gets its amount as it frees.
    ``others``: as in ``_burst_growth``.
    """
    limited, on_machine = limited_pods(pods), machine_uids(pods.everyone.values())
    granted = {
        uid: {index: size for index, size in entitled_bytes(entry, inventory).items() if size}
        for uid, entry in limited.items()
        if not entry.is_whole
    }
    waits = _divide_shared(pods.shared(), inventory.unit, granted, used)
    growth = _burst_growth(pods, inventory, granted, others, used)
    return {
        uid: PodLimit(entry.ref, on_machine[uid], dict.fromkeys(entry.taken_cards))
        if entry.is_whole
        else replace(
            _limit_of(entry, inventory.unit, granted[uid], growth, used.get(uid, {})),
            group_uid=on_machine[uid],
            waits=waits.get(uid, frozenset()),
        )
        for uid, entry in limited.items()
        # Which cards are its own is not known before the kubelet has chosen; it would find them closed.
        if entry.taken_cards or not entry.is_whole
    }


def _limit_of(
    entry: PodWithCards,
    unit: MemoryUnit,
    granted: Mapping[int, int],
    growth: Mapping[int, int],
    in_use: Mapping[int, int],
) -> PodLimit:
    most = unit.bytes_of(entry.limit)
    hard = {
        index: max(LEAST_BYTES, size, min(most, max(size, in_use.get(index, 0)) + growth.get(index, 0)))
        for index, size in granted.items()
    }
    lent = {index: size - granted[index] for index, size in hard.items()}
    return PodLimit(entry.ref, entry.ref.uid, hard, lent)


def _divide_shared(
    shared: Iterable[SharedGrant], unit: MemoryUnit, granted: dict[str, dict[int, int]], used: Amounts
) -> dict[str, frozenset[int]]:
    """Divide each grant that several pods share, which ``granted`` has in full for each of them; returns who waits."""
    waits: dict[str, frozenset[int]] = {}
    for uids, units in shared:
        for index, count in units.items():
            size, sharers = unit.bytes_of(count), [uid for uid in sorted(uids) if index in granted.get(uid, {})]
            own = {uid: granted[uid][index] - size for uid in sharers}
            needs = {uid: used.get(uid, {}).get(index, 0) - own[uid] for uid in sharers}
            for uid, part in divide(size, needs).items():
                granted[uid][index] = own[uid] + part
                if part < size // len(sharers):
                    waits[uid] = waits.get(uid, frozenset()) | {index}
    return waits


def divide(size: int, needs: Mapping[str, int]) -> dict[str, int]:
    """Divide an amount equally; who needs more than its part gets that first, and the others share the rest."""
    parts: dict[str, int] = {}
    by_need = sorted(needs, key=lambda each: (-needs[each], each))
    for place, each in enumerate(by_need):
        parts[each] = min(size, max(needs[each], size // (len(by_need) - place)))
        size -= parts[each]
    return parts


def _burst_growth(
    pods: NodePods, inventory: Inventory, granted: Amounts, others: Mapping[int, int], used: Amounts
) -> dict[int, int]:
    """Compute by card what each pod that bursts may take more, so that all of them leave the unused grants alone.

    ``others``: bytes of each card that are in use and are in no pod's ``used``; an unknown card lends nothing.
    """
    promised, whole = pods.promised(), pods.promised_whole()
    growth: dict[int, int] = {}
    for card in inventory.cards:
        figures = {
            uid: PolledUse(
                used.get(uid, {}).get(card.index, 0),
                sizes[card.index],
                limit=inventory.unit.bytes_of(pods.everyone[uid].limit),
            )
            for uid, sizes in granted.items()
            if card.index in sizes
        }
        bursting = sum(each.can_burst for each in figures.values())
        if not bursting or card.index not in others or card.index in whole:
            continue
        kept = inventory.unit.bytes_of(promised.get(card.index, 0))
        in_use = others[card.index] + sum(cards.get(card.index, 0) for cards in used.values())
        reading = CardReading(card.index, card.memory_bytes, in_use, None, figures, promised=kept)
        growth[card.index] = max(0, reading.free - reading.unused_grants - BURST_MARGIN_BYTES) // bursting
    return growth
