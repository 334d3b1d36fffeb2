"""Device ids that name their card. They have three characters, the first for the card; or four.

The kubelet never allocates an id twice. So ids that name their card make the kubelet itself prevent that a card is
overcommitted. An id depends only on (card index, unit). It stays the same if cards are added, removed or resized, and
if the kubelet's message limit is raised.

Layout: a short id has three of the 94 printable ASCII characters, digits and letters first. Each card index owns a
range of first characters, large enough for an equal share of 262,144 units among that many cards (21 characters, or
185,556 units, for card 0; 8 cards of 32,768 units and 16 of 16,384 fit). The other two characters count the units.
These units are page 0 of a card. Further units are on pages 1 to 94: their ids are the page's character, followed by
the short id of the same position on page 0. So the card's character is always the third from the end.
docs/adr/0002-device-ids.md discusses the alternatives.

The id of a whole card is ``card-`` and the card's index. It is longer than the id of a unit, so the two cannot be
confused.

Source of the limits: the kubelet accepts at most 4,194,304 bytes per message (gRPC's default, a constant of its build),
and a ``Device`` takes 13 bytes in addition to its id.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gcushare.core.cards import MAX_CARDS
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.units import MemoryUnit, finest_unit
from gcushare.core.wording import counted
from gcushare.vendors.neighbours import explain_foreign_id

KUBELET_MESSAGE_LIMIT_BYTES = 4_194_304
"""The limit of a released kubelet; ``--kubelet-message-limit`` sets another one."""
MAX_MESSAGE_LIMIT_BYTES = 16 * KUBELET_MESSAGE_LIMIT_BYTES
"""The largest accepted limit. It also bounds inventories, because their reader does not know the node's limit."""
ID_LENGTH = 3
"""Characters of a short id; an id of page 1 and beyond has one more."""
DEVICE_BYTES = 13 + ID_LENGTH
"""Size of a healthy Device with a short id in ListAndWatchResponse: all tags, lengths and values."""

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase + string.punctuation
_BASE = len(_ALPHABET)
_PER_FIRST_CHARACTER = _BASE * _BASE
_VALUE = {character: value for value, character in enumerate(_ALPHABET)}
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)

FIRST_CHARACTERS_PER_CARD = (21, 15, 10, 8, 6, 5, 5, 4, 4, 3, 3, 2, 2, 2, 2, 2)
_STARTS = tuple(sum(FIRST_CHARACTERS_PER_CARD[:index]) for index in range(MAX_CARDS))
UNITS_PER_PAGE = tuple(count * _PER_FIRST_CHARACTER for count in FIRST_CHARACTERS_PER_CARD)
"""Units per page, by card index. They can never change, because ids are stored."""
MAX_UNITS_PER_CARD = tuple(units * (1 + _BASE) for units in UNITS_PER_PAGE)

_CARD_OF_FIRST = {
    _ALPHABET[start + offset]: index
    for index, (start, count) in enumerate(zip(_STARTS, FIRST_CHARACTERS_PER_CARD, strict=True))
    for offset in range(count)
}
NO_CARD = 255
CARD_OF_FIRST_BYTE = bytes(_CARD_OF_FIRST.get(chr(code), NO_CARD) for code in range(256))
"""Table for ``bytes.translate`` from a short id's first byte to its card index, or ``NO_CARD``."""

_ID_BYTES = _ALPHABET.encode()
_WHOLE_PREFIX = "card-"
_WHOLE_IDS = frozenset(f"{_WHOLE_PREFIX}{index}" for index in range(MAX_CARDS))


def are_own_ids(*characters: bytes) -> bool:
    """Whether the other characters of many ids are all in the alphabet. Each argument has one position of all ids.

    Takes 0.8 ms for 262,144 ids, slicing included.
    """
    return not any(row.translate(None, _ID_BYTES) for row in characters)


def encode_device_id(card_index: int, unit: int) -> str:
    """Name one unit of one card.

    Raises:
        Refused: the card or the unit is outside the layout.
    """
    if not 0 <= card_index < MAX_CARDS:
        raise Refused(f"card index {card_index} cannot be named in a device id; accepted: 0 to {MAX_CARDS - 1}")
    if not 0 <= unit < MAX_UNITS_PER_CARD[card_index]:
        raise Refused(
            f"unit {unit} of card {card_index} cannot be named in a device id; accepted: 0 to "
            f"{MAX_UNITS_PER_CARD[card_index] - 1}"
        )
    page, place = divmod(unit, UNITS_PER_PAGE[card_index])
    first, rest = divmod(place, _PER_FIRST_CHARACTER)
    return _page_text(page) + _ALPHABET[_STARTS[card_index] + first] + _PAIRS[rest]


def decode_device_id(device_id: str) -> tuple[int, int]:
    """Read (card index, unit) from an id.

    Raises:
        RemoteContractError: not an id of this layout; the message says which system it may be from.
    """
    if not is_device_id(device_id):
        raise RemoteContractError(
            f"device id {device_id[:80]!r} is not of this plugin: {explain_foreign_id(device_id)}"
        )
    first, second, third = tuple(device_id[-ID_LENGTH:])
    card_index = _CARD_OF_FIRST[first]
    page = _VALUE[device_id[0]] + 1 if len(device_id) > ID_LENGTH else 0
    place = (_VALUE[first] - _STARTS[card_index]) * _PER_FIRST_CHARACTER + _VALUE[second] * _BASE + _VALUE[third]
    return card_index, page * UNITS_PER_PAGE[card_index] + place


def is_device_id(device_id: str) -> bool:
    """Whether an id is of this layout."""
    return (
        ID_LENGTH <= len(device_id) <= ID_LENGTH + 1
        and device_id[-ID_LENGTH] in _CARD_OF_FIRST
        and all(character in _VALUE for character in device_id)
    )


def device_ids_of_card(card_index: int, units: int) -> list[str]:
    """All ids of a card, unit 0 first.

    Raises:
        Refused: the card has more units than the layout supports.
    """
    if not units:
        return []
    encode_device_id(card_index, units - 1)
    start, per_page = _STARTS[card_index], UNITS_PER_PAGE[card_index]
    heads = (_ALPHABET[start + block] for block in range(-(-min(units, per_page) // _PER_FIRST_CHARACTER)))
    short = [head + pair for head in heads for pair in _PAIRS]
    ids = short[:units]
    for page in range(1, -(-units // per_page)):
        head = _page_text(page)
        ids += [head + device_id for device_id in short[: units - page * per_page]]
    return ids


def _page_text(page: int) -> str:
    return _ALPHABET[page - 1] if page else ""


def list_bytes(units_by_card: Mapping[int, int]) -> int:
    """Size of the ListAndWatchResponse with all units healthy. Ids beyond page 0 are one byte longer."""
    return sum(units * DEVICE_BYTES + max(0, units - UNITS_PER_PAGE[index]) for index, units in units_by_card.items())


def check_fits_kubelet(units_by_card: Mapping[int, int], limit_bytes: int = KUBELET_MESSAGE_LIMIT_BYTES) -> None:
    """Check that ids exist for all units of a node and that the kubelet accepts them in one message.

    Raises:
        Refused: they do not fit; the message has units, bytes and the limit.
    """
    for index, units in sorted(units_by_card.items()):
        if index >= MAX_CARDS:
            raise Refused(f"card index {index} cannot be named in a device id; accepted: 0 to {MAX_CARDS - 1}")
        if units > MAX_UNITS_PER_CARD[index]:
            most = MAX_UNITS_PER_CARD[index]
            raise Refused(f"card {index} has {counted(units, 'unit')}, and at most {most} can be named for it")
    size = list_bytes(units_by_card)
    if size > limit_bytes:
        raise Refused(
            f"{counted(len(units_by_card), 'card')} with {counted(sum(units_by_card.values()), 'unit')} in all: {size} "
            f"bytes, and the kubelet receives at most {limit_bytes}"
        )


def finest_fitting_unit(
    memory: Mapping[int, int], names: Sequence[str], limit_bytes: int, most: int | None = None
) -> MemoryUnit | None:
    """Choose the finest of the named units in which the kubelet accepts a node's cards; None if it accepts none.

    ``memory`` has the bytes of each card by index. ``most``: of at most so many units in all; None: however many.
    """

    def fits(units: Sequence[int]) -> bool:
        if most is not None and sum(units) > most:
            return False
        try:
            check_fits_kubelet(dict(zip(memory, units, strict=True)), limit_bytes)
        except Refused:
            return False
        return True

    return finest_unit(list(memory.values()), names, fits)


def cards_of_ids(device_ids: Iterable[str]) -> dict[int, int]:
    """Count ids per card index.

    Raises:
        RemoteContractError: one of them is not of this layout.
    """
    return dict(Counter(decode_device_id(device_id)[0] for device_id in device_ids))


def encode_whole_card_id(index: int) -> str:
    return f"{_WHOLE_PREFIX}{index}"


def is_whole_card_id(device_id: str) -> bool:
    """Whether an id names a whole card of ours."""
    return device_id in _WHOLE_IDS


def decode_whole_card_id(device_id: str) -> int:
    """Read the card's index.

    Raises:
        RemoteContractError: not such an id; the message says where it may be from.
    """
    if not is_whole_card_id(device_id):
        raise RemoteContractError(f"device id {device_id[:80]!r} is not a whole card: {explain_foreign_id(device_id)}")
    return int(device_id.removeprefix(_WHOLE_PREFIX))
