"""Device ids that name their card: three characters, the first of which is the card's.

The kubelet refuses to give an id twice, so ids that name their card make the kubelet itself enforce that no card is
overcommitted. An id depends on (card index, unit) alone: it never moves when cards come, go or change their size.

Layout: an id is three of the 94 printable ASCII characters, digits and letters first. Each card index owns a run of
first characters, the run being long enough for an equal share of 262,144 units among that many cards (21 characters,
185,556 units, for card 0; 8 cards of 32,768 units and 16 of 16,384 fit). Two further characters count within.
docs/adr/0002-device-ids.md weighs the alternatives.

Source of the limits: the kubelet receives at most 4,194,304 bytes in one message (gRPC's default), and a ``Device``
costs 13 bytes beside its id.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping

from gcushare.core.errors import Refused, RemoteContractError

KUBELET_MESSAGE_LIMIT_BYTES = 4_194_304
ID_LENGTH = 3
DEVICE_BYTES = 13 + ID_LENGTH
"""Of one healthy Device in ListAndWatchResponse: tag, length, id with tag and length, health with tag and length."""
MAX_UNITS_PER_NODE = KUBELET_MESSAGE_LIMIT_BYTES // DEVICE_BYTES

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase + string.punctuation
_BASE = len(_ALPHABET)
_PER_FIRST_CHARACTER = _BASE * _BASE
_VALUE = {character: value for value, character in enumerate(_ALPHABET)}
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)

FIRST_CHARACTERS_PER_CARD = (21, 15, 10, 8, 6, 5, 5, 4, 4, 3, 3, 2, 2, 2, 2, 2)
MAX_CARDS = len(FIRST_CHARACTERS_PER_CARD)
_STARTS = tuple(sum(FIRST_CHARACTERS_PER_CARD[:index]) for index in range(MAX_CARDS))
UNITS_PER_CARD = tuple(count * _PER_FIRST_CHARACTER for count in FIRST_CHARACTERS_PER_CARD)
"""The most units that a card of each index can have; fixed permanently."""

_CARD_OF_FIRST = {
    _ALPHABET[start + offset]: index
    for index, (start, count) in enumerate(zip(_STARTS, FIRST_CHARACTERS_PER_CARD, strict=True))
    for offset in range(count)
}
NO_CARD = 255
CARD_OF_FIRST_BYTE = bytes(_CARD_OF_FIRST.get(chr(code), NO_CARD) for code in range(256))
"""For ``bytes.translate``: the card index of an id's first byte, ``NO_CARD`` where it is none."""

_ID_BYTES = _ALPHABET.encode()


def are_ids_of_ours(second: bytes, third: bytes) -> bool:
    """Whether the characters behind the first, each kind of many ids in a row, are all of the alphabet.

    0.8 ms for 262,144 ids, cutting their characters out included.
    """
    return not second.translate(None, _ID_BYTES) and not third.translate(None, _ID_BYTES)


def encode_device_id(card_index: int, unit: int) -> str:
    """Name one unit of one card.

    Raises:
        Refused: the card or the unit is outside the layout.
    """
    if not 0 <= card_index < MAX_CARDS:
        raise Refused(f"card index {card_index} cannot be named in a device id; accepted: 0 to {MAX_CARDS - 1}")
    if not 0 <= unit < UNITS_PER_CARD[card_index]:
        raise Refused(
            f"unit {unit} of card {card_index} cannot be named in a device id; accepted: 0 to "
            f"{UNITS_PER_CARD[card_index] - 1}"
        )
    first, rest = divmod(unit, _PER_FIRST_CHARACTER)
    return _ALPHABET[_STARTS[card_index] + first] + _PAIRS[rest]


def decode_device_id(device_id: str) -> tuple[int, int]:
    """Read (card index, unit) from an id.

    Raises:
        RemoteContractError: not an id of this layout; says whose it looks like.
    """
    card_index = _CARD_OF_FIRST.get(device_id[:1])
    if len(device_id) != ID_LENGTH or card_index is None or device_id[1] not in _VALUE or device_id[2] not in _VALUE:
        raise RemoteContractError(
            f"device id {device_id[:80]!r} is not of this plugin: {explain_foreign_id(device_id)}"
        )
    first = _VALUE[device_id[0]] - _STARTS[card_index]
    return card_index, first * _PER_FIRST_CHARACTER + _VALUE[device_id[1]] * _BASE + _VALUE[device_id[2]]


def is_device_id(device_id: str) -> bool:
    """Whether an id is of this layout."""
    return (
        len(device_id) == ID_LENGTH
        and device_id[0] in _CARD_OF_FIRST
        and device_id[1] in _VALUE
        and device_id[2] in _VALUE
    )


def device_ids_of_card(card_index: int, units: int) -> list[str]:
    """All ids of a card, unit 0 first.

    Raises:
        Refused: the card has more units than the layout names.
    """
    if units:
        encode_device_id(card_index, units - 1)
    start = _STARTS[card_index]
    heads = (_ALPHABET[start + block] for block in range(-(-units // _PER_FIRST_CHARACTER)))
    ids = [head + pair for head in heads for pair in _PAIRS]
    del ids[units:]
    return ids


def explain_foreign_id(device_id: str) -> str:
    """Say which system an id of another layout comes from, and what to do about it."""
    if "-_-" in device_id:
        origin = "it looks like one of Aliyun's gpushare or the Go gcushare (uuid-_-unit)"
    elif device_id.startswith(("GPU-", "MIG-")):
        origin = "it looks like one of NVIDIA's device plugin (a uuid)"
    else:
        origin = "its layout is unknown"
    return f"{origin}; the pod that holds it was started under another plugin: delete that pod to free its memory"


def check_fits_kubelet(units_by_card: Mapping[int, int]) -> None:
    """Check that a node's units can be named and reported to the kubelet in one message.

    Raises:
        Refused: what does not fit, with units, bytes and the limit.
    """
    for index, units in sorted(units_by_card.items()):
        if index >= MAX_CARDS:
            raise Refused(f"card index {index} cannot be named in a device id; accepted: 0 to {MAX_CARDS - 1}")
        if units > UNITS_PER_CARD[index]:
            raise Refused(f"card {index} has {units} units, and at most {UNITS_PER_CARD[index]} can be named for it")
    total = sum(units_by_card.values())
    if total > MAX_UNITS_PER_NODE:
        raise Refused(
            f"{len(units_by_card)} cards with {total} units in all make a message of {total * DEVICE_BYTES} bytes, and "
            f"the kubelet receives at most {KUBELET_MESSAGE_LIMIT_BYTES}"
        )


def fits_kubelet(units_by_card: Mapping[int, int]) -> bool:
    """Whether ``check_fits_kubelet`` passes."""
    try:
        check_fits_kubelet(units_by_card)
    except Refused:
        return False
    return True


def cards_of_ids(device_ids: Iterable[str]) -> dict[int, int]:
    """Count ids per card index.

    Raises:
        RemoteContractError: one of them is not of this layout.
    """
    counts: dict[int, int] = {}
    for device_id in device_ids:
        index, _ = decode_device_id(device_id)
        counts[index] = counts.get(index, 0) + 1
    return counts
