"""Computes which annotations must be written on a pod so that its record is right. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gcushare.core.assignments import PodRef
from gcushare.core.requests import split_over_cards
from gcushare.device_plugin.pods.pod import PodEntry, PodState
from gcushare.node.pods import CardCounts
from gcushare.vendors import Vendor
from gcushare.wire import annotations as keys
from gcushare.wire.annotations import PodRecord, correction_text, encode_record, is_own_record, recorded_time_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWrite:
    """Annotations to write on one pod. ``corrected_from`` are the cards that the record wrongly named, if any."""

    pod: PodRef
    annotations: Mapping[str, str]
    cards: tuple[int, ...]
    corrected_from: tuple[int, ...] = ()
    placed_here: bool = False
    """Whether the pod had no record: this plugin chose its cards."""
    repaired: str = ""
    """What was wrong with the record that is replaced; "" if nothing, or if there was none."""
    exchanged: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """The cards that have another uuid than the record said: that one, and the present one."""


def compute_write(
    entry: PodEntry, vendor: Vendor, uuids: Mapping[int, str], units: CardCounts, now_ns: int
) -> RecordWrite | None:
    """Compute a served pod's record; None if each key of it is right, or if the right one is not known yet.

    The record of a pod that the kubelet forgot is left as it is: nothing else says which cards the pod has.
    """
    if entry.state is not PodState.SERVED:
        return None
    record, cards = entry.record, entry.taken_cards
    recorded = record.card_indexes if record is not None else ()
    moved = bool(recorded) and set(recorded) != set(cards)
    annotations = encode_record(vendor, _true_record(entry, vendor, cards, units, now_ns))
    for key in {keys.CARD_MODE, keys.UNITS_BY_CARD, keys.RECORDED_APART} - annotations.keys():
        if entry.annotations.get(key):
            annotations[key] = ""
    # A card that this node does not know keeps the uuid that the record has.
    before = dict(zip(recorded, entry.annotations.get(keys.CARD_UUID, "").split(","), strict=False))
    now = {index: uuids.get(index, before.get(index, "")) for index in cards}
    annotations[keys.CARD_UUID] = ",".join(now.values())
    corrected = correction_text(recorded, cards) if moved else entry.corrected.get(frozenset(cards), "")
    if corrected or entry.annotations.get(keys.CORRECTED):
        annotations[keys.CORRECTED] = corrected
    # A record of an earlier release, or of another system, has no uid: that alone is no reason to write.
    present = {keys.RECORDED_UID: entry.ref.uid, **entry.annotations}
    wrong = [key for key, value in annotations.items() if present.get(key) != value]
    if not wrong:
        return None
    damage = entry.record_error or ("it was removed" if entry.is_recorded_here and record is None else "")
    exchanged: dict[int, tuple[str, str]] = {}
    if record is not None and record.assigned and not moved:
        exchanged = {index: (was, now[index]) for index, was in before.items() if was and was != now[index]}
        if wrong != [keys.UNITS_BY_CARD] and not (exchanged and wrong == [keys.CARD_UUID]):
            damage = f"wrong or missing: {', '.join(wrong)}"
    return RecordWrite(
        pod=entry.ref,
        annotations=annotations,
        cards=cards,
        corrected_from=recorded if moved else (),
        placed_here=not recorded and not damage,
        repaired=damage,
        exchanged=exchanged,
    )


def expect_write(
    entry: PodEntry, vendor: Vendor, uuids: Mapping[int, str], units: CardCounts, now_ns: int
) -> RecordWrite | None:
    """Compute what will be written on a pod if the kubelet shows its pending allocations as they are; None: nothing."""
    if entry.state is PodState.UNCONFIRMED:
        entry = replace(entry, state=PodState.SERVED)
    return compute_write(entry, vendor, uuids, units, now_ns)


def _true_record(entry: PodEntry, vendor: Vendor, cards: tuple[int, ...], units: CardCounts, now_ns: int) -> PodRecord:
    """The record of a pod that holds these cards."""
    sizes = [units.get(index, 0) for index in cards]
    card_units, whole_units = max(sizes) if entry.is_whole else sizes[0], sum(sizes)
    if entry.record is not None and not all(sizes):  # A card that the node lost keeps the size that the record has.
        card_units, whole_units = entry.record.card_units, entry.record.pod_units
    chosen_ns = entry.assign_time_ns
    if not chosen_ns and is_own_record(entry.annotations, entry.ref.uid):
        chosen_ns = recorded_time_ns(vendor, entry.annotations)
    return PodRecord(
        card_indexes=cards,
        card_units=card_units,
        pod_units=whole_units if entry.is_whole else entry.request.total_units,
        assigned=True,
        assign_time_ns=chosen_ns or now_ns,
        whole=entry.is_whole,
        card_shares=_unequal_shares(entry, cards),
        uid=entry.ref.uid,
        apart=str(entry.apart or ""),
    )


def _unequal_shares(entry: PodEntry, cards: tuple[int, ...]) -> tuple[int, ...]:
    """The units that a served pod has on each of its cards, if they are not an equal split; else empty.

    Units of ordinary init containers are not shown. If the shown ones are not all, an equal split is the best guess.
    """
    if entry.is_whole or len(cards) < 2:
        return ()
    total, counts = entry.request.total_units, entry.units_by_card()
    is_known = sum(counts.values()) == total and counts != split_over_cards(total, cards)
    return tuple(counts[index] for index in cards) if is_known else ()
