"""The record on a pod: which card it was given, in upstream gpushare's annotation keys.

Source of the keys and values: the GCUShare manual's chapter 4.3 and Aliyun's gpushare. Several cards are written as
``0,2``; systems that know one card only read upstream's plain form for every pod that has one.
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
"""A card's index; a larger one is nothing that a node has, ours or another system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """The allocation as the pod's annotations say it. ``card_units`` is one card's size, ``pod_units`` the pod's sum.

    ``assigned``: whether the node side has handed the card out; ``assign_time_ns``: when the card was chosen, in
    nanoseconds since the epoch on the extender's clock; ``card_shares``: the units on each card where they are not an
    equal split, in the order of the indexes.
    """

    card_indexes: tuple[int, ...]
    card_units: int
    pod_units: int
    assigned: bool = False
    assign_time_ns: int = 0
    whole: bool = False
    card_shares: tuple[int, ...] = ()

    def units_by_card(self, total: int) -> dict[int, int]:
        """Say where the ``total`` units are that a pod asks for as memory.

        Shares are believed of a pod that was served, for the plugin has written them; none makes a pod hold less.
        """
        if self.card_shares and self.assigned and sum(self.card_shares) == total:
            return dict(sorted(zip(self.card_indexes, self.card_shares, strict=True)))
        return split_over_cards(total, self.card_indexes)


def encode_record(vendor: Vendor, record: PodRecord) -> dict[str, str]:
    """Write a record as annotations."""
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
    """Read a pod's record; None where it has none. Only the card is indispensable: other systems leave the rest out.

    Raises:
        RemoteContractError: a value is malformed; names the key.
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
    """Read the units on each card; a text that is none of the plugin's says nothing, and the plugin writes its own."""
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
