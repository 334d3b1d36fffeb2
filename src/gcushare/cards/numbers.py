"""The number of each card of a node, by which device ids, records and the ledger name it. Pure.

A driver numbers its cards differently when one is lost, added or moved to another slot. What a container was given
stays: a variable or a CDI name with a uuid means the same card as before, so the number in that container's device ids
must mean it too. A number therefore stays with its card while anything holds it, whether the card is listed or lost.
docs/adr/0042-a-card-is-what-its-containers-were-given.md has the alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from gcushare.core.cards import MAX_CARDS

K = TypeVar("K")
"""What names a card apart from its numbers: its uuid."""


def number_cards(minors: Mapping[K, int], held: Mapping[K, int]) -> dict[K, int]:
    """The number of each listed card, from its minor number; a card for which none is left is not in the answer.

    A card keeps the number that is ``held`` for it. Any other card takes its minor number where no other card holds
    that, else the lowest free one. ``held`` may name cards that are not listed.
    """
    taken = set(held.values())
    numbers = {card: held[card] for card in minors if card in held}
    others = sorted(((minor, card) for card, minor in minors.items() if card not in held), key=lambda each: each[0])
    for minor, card in others:
        if minor not in taken:
            numbers[card] = minor
            taken.add(minor)
    for _, card in others:
        free = next((number for number in range(MAX_CARDS) if number not in taken), None)
        if card not in numbers and free is not None:
            numbers[card] = free
            taken.add(free)
    return numbers
