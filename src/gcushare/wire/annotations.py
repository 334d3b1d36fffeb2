"""The annotations of pods: our keys, the record of a pod's cards, and its over-use.

The record has upstream gpushare's keys. Source of these keys and their values: the GCUShare manual, chapter 4.3, and
Aliyun's gpushare. Several cards are written as ``0,2``. A single card has upstream's form, for systems that support
only one card per pod.

The idle annotation is on a pod that has not used its cards for the time that the admin set; it has since when.

The over-use annotation is on a pod that uses more of a card than it was granted, while that lasts. The plugin writes
it; other programs show it. Its figures are updated only after large changes; the metrics have those of every
measurement. Anyone with the right to patch the pod may have written it, so no decision depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from gcushare.core.cards import MAX_CARDS, CardIndex
from gcushare.core.errors import RemoteContractError
from gcushare.core.over_use.idleness import EVICT, KEEP
from gcushare.core.over_use.tracking import OverUse, PolledUse, describe_over_use
from gcushare.core.requests import MAX_POD_UNITS, split_over_cards
from gcushare.core.wording import index_text, utc_text
from gcushare.vendors.vendor import Vendor
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, MAX_INT, BoundedJsonDecoder, Count

CARD_UUID = "gcushare.io/card-uuid"
"""On the pod, by the plugin: the uuids of its cards, comma-separated in the order of their indexes."""
CARD_MODE = "gcushare.io/card-mode"
"""On the pod, by the extender: ``whole`` if the pod holds whole cards; absent for shared memory."""
UNITS_BY_CARD = "gcushare.io/units-by-card"
"""On the pod, by the plugin: its units by card, such as ``2,3``, in the order of the card indexes. Only if the kubelet
divided its memory unequally."""
CORRECTED = "gcushare.io/corrected"
"""On the pod, by the plugin: ``0->1`` if the kubelet gave it another card than the record said."""
RECORDED_UID = "gcushare.io/recorded-uid"
"""On the pod, by the extender and the plugin: the uid of the pod that its record is of. A manifest that was exported
from a cluster brings the record of another pod along. Records of other systems and of earlier releases have no uid."""
RECORDED_APART = "gcushare.io/recorded-apart"
"""On the pod, by the extender and the plugin: ``app=web``, the label by which it was kept apart when it was bound. It
shares no card with the pods of its namespace that have the same here, whatever their labels become."""
OVER_USE = "gcushare.io/over-use"
"""On the pod, by the plugin: how much of which cards it uses beyond its grant. Removed when the over-use ends."""
IDLE_SINCE = "gcushare.io/idle-since"
"""On the pod, by the plugin: since when it has not used its cards, while it is idle."""
ROOM_FOUND = "gcushare.io/room-found"
"""On a waiting pod, by the extender: when it last found room that kube-scheduler had not asked about. No program reads
the value: the change makes kube-scheduler try the pod again."""

NODE_POLICY = "gcushare.io/node-policy"
"""On the pod, by its author: a node policy's name instead of the extender's default."""
CARD_POLICY = "gcushare.io/card-policy"
"""On the pod, by its author: a card policy's name instead of the extender's default."""
WHOLE_CARD_POLICY = "gcushare.io/whole-card-policy"
"""On the pod, by its author: a whole-card policy's name instead of the extender's default."""
USE_CARDS = "gcushare.io/use-cards"
"""On the pod, by its author: only cards with one of these uuids, indexes or models, comma-separated."""
AVOID_CARDS = "gcushare.io/avoid-cards"
"""On the pod, by its author: no card with one of these uuids, indexes or models, comma-separated."""
CARDS = "gcushare.io/cards"
"""On the pod, by its author: spread the requested memory equally over this many cards of one node."""
CARDS_LINKED = "gcushare.io/cards-linked"
"""On the pod, by its author: with ``true`` all of its ``CARDS`` have to be linked with each other."""
APART = "gcushare.io/apart"
"""On the pod, by its author: the key of one of its labels. It shares no card with the pods of its namespace that ask
for this by the same label and have the same value of it."""
MEMORY_LIMIT = "gcushare.io/memory-limit"
"""On the pod, by its author: the units that it may use while no other pod needs them; placed by its request."""
MEMORY_UNIT = "gcushare.io/memory-unit"
"""On the pod, by its author: the unit in which it counts memory, where nodes differ; only nodes with it are for it."""
COMPUTE_SHARE = "gcushare.io/compute-share"
"""On the pod, by its author: ``proportional`` requests compute in proportion to memory, on nodes with MPS limits."""
WHEN_IDLE = "gcushare.io/when-idle"
"""On the pod, by its author: what may happen if it does not use its cards; one of ``WHEN_IDLE_WORDS``."""
WHEN_IDLE_WORDS = (KEEP, EVICT)
AUTHORS_KEYS = (
    NODE_POLICY,
    CARD_POLICY,
    WHOLE_CARD_POLICY,
    USE_CARDS,
    AVOID_CARDS,
    CARDS,
    CARDS_LINKED,
    APART,
    MEMORY_LIMIT,
    MEMORY_UNIT,
    COMPUTE_SHARE,
    WHEN_IDLE,
)
"""All that a pod's author may write."""

CLAIMED_RESOURCE = "gcushare.io/claimed-resource"
"""On the pod, by the admission policy: the memory resource that it replaced with a claim."""
CLAIMED_UNITS = "gcushare.io/claimed-units"
"""On the pod, by the admission policy: the units per container that it replaced, ``main=3,helper=2`` in the pod's order
with init containers first. The sum that holds is in the template's name (``wire.dra.claim_names``)."""

CORRECTION = r"[0-9,]{1,64}->[0-9,]{1,64}"
"""The values of ``CORRECTED``; see ``correction_text``."""
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
PROPORTIONAL = "proportional"
MODE_WHOLE = "whole"

MAX_RECORD_CARDS = 64
MAX_RECORD_UNITS = MAX_POD_UNITS
MAX_RECORD_INDEX = 1023
"""The largest card index of any node, ours or another system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """A pod's record. ``card_units`` is the size of one card, ``pod_units`` the pod's total.

    ``assigned``: the node has given the card to the pod. ``assign_time_ns`` is when the card was chosen, in nanoseconds
    since the epoch on the extender's clock. ``card_shares`` are the units on each card, in the order of the indexes;
    empty for an equal split. ``uid``: the pod's, "" if the record does not say it. ``apart``: see ``RECORDED_APART``.
    """

    card_indexes: tuple[int, ...]
    card_units: int
    pod_units: int
    assigned: bool = False
    assign_time_ns: int = 0
    whole: bool = False
    card_shares: tuple[int, ...] = ()
    uid: str = ""
    apart: str = ""

    def units_by_card(self, total: int) -> dict[int, int]:
        """Divide the ``total`` memory units that a pod requests over its cards.

        Shares count only for an assigned pod, because then the plugin has written them, and only if they add up to the
        total, so that they cannot make a pod hold less.
        """
        if self.card_shares and self.assigned and sum(self.card_shares) == total:
            return dict(sorted(zip(self.card_indexes, self.card_shares, strict=True)))
        return split_over_cards(total, self.card_indexes)


def encode_record(vendor: Vendor, record: PodRecord) -> dict[str, str]:
    keys = vendor.record
    annotations = {
        keys.card_index: ",".join(str(index) for index in record.card_indexes),
        keys.card_units: str(record.card_units),
        keys.pod_units: str(record.pod_units),
        keys.assigned: "true" if record.assigned else "false",
        keys.assign_time: str(record.assign_time_ns),
    }
    if record.whole:
        annotations[CARD_MODE] = MODE_WHOLE
    if record.card_shares:
        annotations[UNITS_BY_CARD] = ",".join(str(units) for units in record.card_shares)
    if record.uid:
        annotations[RECORDED_UID] = record.uid
    if record.apart:
        annotations[RECORDED_APART] = record.apart
    return annotations


def decode_record(vendor: Vendor, annotations: Mapping[str, str]) -> PodRecord | None:
    """Decode a pod's record; None if it has none. Only the card is required: other systems omit the rest.

    Raises:
        RemoteContractError: a value is malformed; the message has the key.
    """
    keys = vendor.record
    cards = annotations.get(keys.card_index)
    if cards is None:
        return None
    indexes = tuple(_parse_number(keys.card_index, word) for word in cards.split(",", MAX_RECORD_CARDS))
    if max(indexes) > MAX_RECORD_INDEX:
        raise RemoteContractError(
            f"annotation {keys.card_index}={cards[:80]!r} names a card that no node has; at most {MAX_RECORD_INDEX}"
        )
    if len(set(indexes)) != len(indexes):
        raise RemoteContractError(f"annotation {keys.card_index}={cards[:80]!r} names a card twice")
    return PodRecord(
        card_indexes=indexes,
        card_units=_parse_units(keys.card_units, annotations),
        pod_units=_parse_units(keys.pod_units, annotations),
        assigned=annotations.get(keys.assigned) == "true",
        assign_time_ns=_parse_number(keys.assign_time, annotations.get(keys.assign_time, "0")),
        whole=annotations.get(CARD_MODE) == MODE_WHOLE,
        card_shares=_parse_shares(annotations.get(UNITS_BY_CARD, ""), len(indexes)),
        uid=annotations.get(RECORDED_UID, ""),
        apart=annotations.get(RECORDED_APART, ""),
    )


def is_own_record(annotations: Mapping[str, str], uid: str) -> bool:
    """Whether a pod's record may be its own: it names the pod's uid, or none."""
    return annotations.get(RECORDED_UID) in (None, "", uid)


def recorded_time_ns(vendor: Vendor, annotations: Mapping[str, str]) -> int:
    """When a pod's cards were chosen, even if the rest of its record cannot be read; 0 if that is unknown."""
    try:
        return _parse_number(vendor.record.assign_time, annotations.get(vendor.record.assign_time, "0"))
    except RemoteContractError:
        return 0


def record_keys(vendor: Vendor) -> tuple[str, ...]:
    """Every annotation key of a pod's record; only our programs may write them."""
    keys = vendor.record
    own = (CARD_MODE, UNITS_BY_CARD, CARD_UUID, CORRECTED, RECORDED_UID, RECORDED_APART)
    return (keys.card_index, keys.card_units, keys.pod_units, keys.assigned, keys.assign_time, *own)


def _parse_shares(text: str, cards: int) -> tuple[int, ...]:
    """Read the units on each card. A malformed text counts as none, because the plugin replaces it."""
    words = text.split(",", cards)
    if len(words) != cards or not all(word.isascii() and word.isdigit() and len(word) <= 10 for word in words):
        return ()
    return tuple(int(word) for word in words)


def _parse_units(key: str, annotations: Mapping[str, str]) -> int:
    units = _parse_number(key, annotations.get(key, "0"))
    if units > MAX_RECORD_UNITS:
        raise RemoteContractError(f"annotation {key}={units} is more than any node has ({MAX_RECORD_UNITS})")
    return units


def _parse_number(key: str, text: str) -> int:
    word = text.strip()
    if not (word.isascii() and word.isdigit() and len(word) <= 19 and int(word) <= MAX_INT):
        raise RemoteContractError(f"annotation {key}={text[:80]!r} is not a whole number of at most {MAX_INT}")
    return int(word)


_MAX_TIME = 40


class _CardUse(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    used: Count
    granted: Count
    peak: Count = 0
    limit: Count = 0
    driver: bool = False
    """Whether ``used`` is what the driver counts, in place of the sum over processes."""


class _OverUseDocument(msgspec.Struct, frozen=True):
    since: Annotated[str, msgspec.Meta(max_length=_MAX_TIME)]
    cards: Annotated[dict[CardIndex, _CardUse], msgspec.Meta(max_length=MAX_CARDS)]


OVER_USE_NOTE = BoundedJsonDecoder(_OverUseDocument, f"annotation {OVER_USE}", limit_bytes=ANNOTATION_BYTES)
"""``since`` is a time in Kubernetes' format, ``cards`` maps card indexes to bytes."""


def encode_over_use(cards: Mapping[int, OverUse]) -> str:
    """Encode a pod's over-use by card index. ``cards`` must not be empty."""
    since = utc_text(int(min(each.since for each in cards.values())))
    found = {
        index: _CardUse(
            each.figures.used,
            each.figures.granted,
            each.peak if each.peak > each.figures.used else 0,
            each.figures.limit,
            each.figures.by_driver,
        )
        for index, each in sorted(cards.items())
    }
    return msgspec.json.encode(_OverUseDocument(since, found)).decode()


def decode_over_use(text: str) -> dict[int, OverUse]:
    """Decode a pod's over-use by card index.

    Raises:
        RemoteContractError: the annotation is malformed.
    """
    found = OVER_USE_NOTE.read(text)
    try:
        since = datetime.fromisoformat(found.since)
        moment = (since if since.tzinfo is not None else since.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise RemoteContractError(f"annotation {OVER_USE} has an unreadable time: {found.since[:80]!r}") from error
    return {
        index: OverUse(
            PolledUse(each.used, each.granted, limit=each.limit, by_driver=each.driver),
            moment,
            max(each.used, each.peak),
        )
        for index, each in found.cards.items()
    }


def correction_text(before: Sequence[int], after: Sequence[int]) -> str:
    """What ``CORRECTED`` says of a pod that has other cards than were planned, as ``0->1``."""
    return f"{index_text(before)}->{index_text(after)}"


def corrected_text(annotations: Mapping[str, str]) -> str:
    """How a pod's cards differ from the plan, as ``0->1``. Other text is not the plugin's and counts as none."""
    text = annotations.get(CORRECTED, "")
    return text if re.fullmatch(CORRECTION, text) else ""


def over_use_text(annotations: Mapping[str, str], *, is_ungranted: bool = False) -> str:
    """A pod's over-use as text: how much of which card, since when. "" if the pod has no annotation.

    ``is_ungranted``: only of cards that it was not granted.
    """
    cards = _read_over_use(annotations)
    if is_ungranted:
        cards = {index: each for index, each in cards.items() if not each.figures.granted}
    if not cards:
        return ""
    uses = "; ".join(describe_over_use(index, each.figures) for index, each in sorted(cards.items()))
    return f"{uses}, since {utc_text(int(min(each.since for each in cards.values())))}"


def idle_since(annotations: Mapping[str, str]) -> str:
    """Since when a pod is idle, by its annotation. Other text than the plugin's counts as none."""
    text = annotations.get(IDLE_SINCE, "")
    return text if re.fullmatch(_TIME, text, re.ASCII) else ""


def used_bytes(annotations: Mapping[str, str]) -> tuple[tuple[int, int], ...]:
    """The bytes in use of each card, (card, bytes), of a pod that is over its grant: of no other is its use noted."""
    return tuple((index, each.figures.used) for index, each in sorted(_read_over_use(annotations).items()))


def over_used_cards(annotations: Mapping[str, str]) -> frozenset[int]:
    """The cards on which a pod uses more than it was granted, by its annotation."""
    return frozenset(_read_over_use(annotations))


def note_since_s(annotations: Mapping[str, str], index: int) -> float | None:
    """The start of a pod's over-use of a card, according to its annotation; None if there is none."""
    found = _read_over_use(annotations).get(index)
    return found.since if found is not None else None


def _read_over_use(annotations: Mapping[str, str]) -> dict[int, OverUse]:
    """Read the annotation. An unreadable one counts as none; the plugin replaces it at its next measurement."""
    text = annotations.get(OVER_USE)
    try:
        return decode_over_use(text) if text is not None else {}
    except RemoteContractError:
        return {}
