"""Which of a node's cards a pod is given whole: those close together, or those that spare the tight groups.

Closeness has two levels: a link group (cards with a direct link or one switch between them) lies within a NUMA node,
where the machine reports them. Where it reports none all cards are equally close. Cards that are equally close are
ordered by a rank, the least first, and then by index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from gcushare.core.cards import Card

CLOSE = "close"
LOOSE = "loose"
"""The names of the policies for whole cards; ``placement.WHOLE_CARD_POLICIES`` says what each does."""


Rank = Callable[[Card], tuple[int, ...]]
_Key = tuple[int, int, list[tuple[tuple[int, ...], int]]]


def by_index(_card: Card) -> tuple[int, ...]:
    """The rank where nothing else is preferred."""
    return ()


def choose_close_cards(cards: Sequence[Card], count: int, rank: Rank = by_index) -> tuple[int, ...] | None:
    """Choose ``count`` cards that are as close as can be; None when there are fewer.

    The tightest group that is large enough is used up first, so that larger ones stay whole for pods that need them;
    equal groups are ordered by their first card. Where no group is large enough, whole groups are joined, the
    largest first.
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
    """Choose ``count`` cards for a pod to which it does not matter how near they are; None when there are fewer.

    Cards without a link are used up first, then the smallest link groups, wherever they are, so that the others stay
    for pods that need them.
    """
    if count <= 0 or len(cards) < count:
        return None
    return _indexes(_joined(sorted(_by_link(cards, rank), key=_tightest_first(cards, rank)))[:count])


def closeness(cards: Sequence[Card], count: int) -> int:
    """How close ``count`` of these cards, two or more, can be: 2 in one link group, 1 in one NUMA node, else 0."""
    for level, groups in ((2, _by_link(cards, by_index)), (1, _by_numa(cards, by_index))):
        if any(len(group) >= count for group in groups):
            return level
    return 0


def _indexes(cards: Iterable[Card]) -> tuple[int, ...]:
    return tuple(sorted(card.index for card in cards))


def _joined(groups: Iterable[Sequence[Card]]) -> list[Card]:
    return [card for group in groups for card in group]


def _tightest_first(cards: Sequence[Card], rank: Rank) -> Callable[[Sequence[Card]], _Key]:
    """Order groups by size, then by the size of their NUMA node, then by their cards."""
    of_numa = Counter(card.numa_node for card in cards)
    return lambda group: (len(group), of_numa[group[0].numa_node], [(rank(card), card.index) for card in group])


def _by_link(cards: Sequence[Card], rank: Rank) -> list[list[Card]]:
    """The link groups, split by NUMA node; a card whose links are unknown is alone."""
    return _grouped(cards, lambda card: (card.numa_node, card.link_group or card.index), rank)


def _by_numa(cards: Sequence[Card], rank: Rank) -> list[list[Card]]:
    return _grouped(cards, lambda card: card.numa_node, rank)


def _grouped(cards: Sequence[Card], key: Callable[[Card], Hashable], rank: Rank) -> list[list[Card]]:
    groups: dict[Hashable, list[Card]] = {}
    for card in sorted(cards, key=lambda card: (rank(card), card.index)):
        groups.setdefault(key(card), []).append(card)
    return list(groups.values())
