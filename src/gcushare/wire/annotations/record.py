"""The record on a pod: which cards it holds, in upstream gpushare's annotation keys.

Source of the keys and values: the GCUShare manual, chapter 4.3, and Aliyun's gpushare. Several cards are written as
``0,2``. A single card has upstream's form, for systems that support only one card per pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gcushare.core.errors import RemoteContractError
from gcushare.core.requests import MAX_POD_UNITS, split_over_cards
from gcushare.vendors.vendor import Vendor
from gcushare.wire.annotations.keys import CARD_MODE, MODE_WHOLE, UNITS_BY_CARD
from gcushare.wire.untrusted_json import MAX_INT

MAX_RECORD_CARDS = 64
MAX_RECORD_UNITS = MAX_POD_UNITS
MAX_RECORD_INDEX = 1023
"""The largest card index of any node, ours or another system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """A pod's record. ``card_units`` is the size of one card, ``pod_units`` the pod's total.

    ``assigned``: the node has given the card to the pod. ``assign_time_ns`` is when the card was chosen, in nanoseconds
    since the epoch on the extender's clock. ``card_shares`` are the units on each card, in the order of the indexes;
    empty for an equal split.
    """

    card_indexes: tuple[int, ...]
    card_units: int
    pod_units: int
    assigned: bool = False
    assign_time_ns: int = 0
    whole: bool = False
    card_shares: tuple[int, ...] = ()

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
    )


def record_keys(vendor: Vendor) -> tuple[str, ...]:
    """Every annotation key that only our programs may write on a pod."""
    keys = vendor.record
    return (keys.card_index, keys.card_units, keys.pod_units, keys.assigned, keys.assign_time, CARD_MODE, UNITS_BY_CARD)


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
