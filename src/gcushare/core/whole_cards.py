"""How several cards are chosen: by how close they are.

Closeness has two levels: link groups (cards with a direct link or one switch between them) within NUMA nodes. If the
machine reports neither, all cards are equally close.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gcushare.core.cards import Card

CLOSE = "close"
LOOSE = "loose"
"""The names of the policies for whole cards; `WHOLE_CARD_POLICIES` says what each does."""

LINKED = 2
"""The ``closeness`` of cards of one link group."""

Rank = Callable[[Card], tuple[int, ...]]
"""Orders cards that are equally close, the lowest first; among equals the index decides."""
_Key = tuple[int, int, list[tuple[tuple[int, ...], int]]]

WholeCardChoice = Callable[[Sequence[Card], int, Rank], tuple[int, ...] | None]
"""Chooses a number of whole cards; None if there are fewer."""


@dataclass(frozen=True, slots=True)
class WholeCardPolicy:
    """How whole cards are chosen. ``cards`` describes that in help texts."""

    name: str
    choose: WholeCardChoice
    cards: str


def by_index(_card: Card) -> tuple[int, ...]:
    """The rank to use if only the index matters."""
    return ()


def choose_close_cards(cards: Sequence[Card], count: int, rank: Rank = by_index) -> tuple[int, ...] | None:
    """Choose the ``count`` closest cards. None if there are fewer cards.

    The smallest group that is large enough goes first, so that larger groups stay intact for pods that need them. Equal
    groups are ordered by their first card. If no group is large enough, whole groups are joined, largest first.
    """
    if count <= 0 or len(cards) < count:
        return None
    key = _tightest_first(cards, rank)
    for groups in (_by_link(cards, rank), _by_numa(cards, rank)):
        large = [group for group in groups if len(group) >= count]
        if large:
            return _indexes(min(large, key=key)[:count])
    return _indexes(_joined(sorted(_by_numa(cards, rank), key=lambda group: (-len(group), key(group))))[:count])


def choose_loose_cards(cards: Sequence[Card], count: int, rank: Rank = by_index) -> tuple[int, ...] | None:
    """Choose ``count`` cards for a pod that does not need them close together. None if there are fewer cards.

    Cards without a link go first, then the smallest link groups, so that larger groups stay for pods that need them.
    """
    if count <= 0 or len(cards) < count:
        return None
    return _indexes(_joined(sorted(_by_link(cards, rank), key=_tightest_first(cards, rank)))[:count])


def closeness(cards: Sequence[Card], count: int) -> int:
    """How close ``count`` of these cards (two or more) can be: 2 in one link group, 1 in one NUMA node, else 0."""
    for level, groups in ((LINKED, _by_link(cards, by_index)), (1, _by_numa(cards, by_index))):
        if any(len(group) >= count for group in groups):
            return level
    return 0


def linked_sets(cards: Sequence[Card], count: int) -> list[frozenset[int]]:
    """The indexes of each link group that has at least ``count`` (two or more) of these cards."""
    groups = _by_link(cards, by_index)
    return [frozenset(card.index for card in group) for group in groups if len(group) >= count]


def _indexes(cards: Iterable[Card]) -> tuple[int, ...]:
    return tuple(sorted(card.index for card in cards))


def _joined(groups: Iterable[Sequence[Card]]) -> list[Card]:
    return [card for group in groups for card in group]


def _tightest_first(cards: Sequence[Card], rank: Rank) -> Callable[[Sequence[Card]], _Key]:
    """Order groups by size, then by the size of their NUMA node, then by their cards."""
    of_numa = Counter(card.numa_node for card in cards)
    return lambda group: (len(group), of_numa[group[0].numa_node], [(rank(card), card.index) for card in group])


def _by_link(cards: Sequence[Card], rank: Rank) -> list[list[Card]]:
    """The link groups, split by NUMA node. A card with unknown links forms a group of its own."""
    return _grouped(cards, lambda card: (card.numa_node, card.link_group or card.index), rank)


def _by_numa(cards: Sequence[Card], rank: Rank) -> list[list[Card]]:
    return _grouped(cards, lambda card: card.numa_node, rank)


def _grouped(cards: Sequence[Card], key: Callable[[Card], Hashable], rank: Rank) -> list[list[Card]]:
    groups: dict[Hashable, list[Card]] = {}
    for card in sorted(cards, key=lambda card: (rank(card), card.index)):
        groups.setdefault(key(card), []).append(card)
    return list(groups.values())


WHOLE_CARD_POLICIES: Mapping[str, WholeCardPolicy] = {
    policy.name: policy
    for policy in (
        WholeCardPolicy(CLOSE, choose_close_cards, "those of one link group or NUMA node, where they are known"),
        WholeCardPolicy(LOOSE, choose_loose_cards, "the odd ones, which leaves the groups to others"),
    )
}
"""``close``: cards of one link group or NUMA node, the smallest that is large enough. ``loose``: cards of the smallest
groups, however far apart. The card policy breaks ties."""
