"""Which of a node's cards a pod is given whole: those close together, or those that spare the tight groups.

Closeness has two levels: a link group (cards with a direct link or one switch between them) lies within a NUMA node,
where the machine reports them. Where it reports none all cards are equally close.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

CLOSE = "close"
LOOSE = "loose"
"""The names of the policies for whole cards; ``placement.WHOLE_CARD_POLICIES`` says what each does."""


@dataclass(frozen=True, slots=True)
class CardPlace:
    """Where one card sits; ``numa_node`` None and ``link_group`` "" where the machine does not report it.

    ``rank`` orders cards that are equally close, the least first; without it the lowest index goes first.
    """

    index: int
    numa_node: int | None = None
    link_group: str = ""
    rank: tuple[int, ...] = ()


_Key = tuple[int, int, list[tuple[tuple[int, ...], int]]]


def choose_close_cards(places: Sequence[CardPlace], count: int) -> tuple[int, ...] | None:
    """Choose ``count`` cards that are as close as can be; None when there are fewer.

    The tightest group that is large enough is used up first, so that larger ones stay whole for pods that need them;
    equal groups are ordered by their first card. Where no group is large enough, whole groups are joined, the
    largest first.
    """
    if count <= 0 or len(places) < count:
        return None
    key = _tightest_first(places)
    for groups in (_by_link(places), _by_numa(places)):
        large = [group for group in groups if len(group) >= count]
        if large:
            return _indexes(min(large, key=key)[:count])
    return _indexes(_joined(sorted(_by_numa(places), key=lambda group: (-len(group), key(group))))[:count])


def choose_loose_cards(places: Sequence[CardPlace], count: int) -> tuple[int, ...] | None:
    """Choose ``count`` cards for a pod to which it does not matter how near they are; None when there are fewer.

    Cards without a link are used up first, then the smallest link groups, wherever they are, so that the others stay
    for pods that need them.
    """
    if count <= 0 or len(places) < count:
        return None
    return _indexes(_joined(sorted(_by_link(places), key=_tightest_first(places)))[:count])


def closeness(places: Sequence[CardPlace], count: int) -> int:
    """How close ``count`` of these cards, two or more, can be: 2 in one link group, 1 in one NUMA node, else 0."""
    for level, groups in ((2, _by_link(places)), (1, _by_numa(places))):
        if any(len(group) >= count for group in groups):
            return level
    return 0


def _indexes(places: Iterable[CardPlace]) -> tuple[int, ...]:
    return tuple(sorted(place.index for place in places))


def _joined(groups: Iterable[Sequence[CardPlace]]) -> list[CardPlace]:
    return [place for group in groups for place in group]


def _order(place: CardPlace) -> tuple[tuple[int, ...], int]:
    return (place.rank, place.index)


def _tightest_first(places: Sequence[CardPlace]) -> Callable[[Sequence[CardPlace]], _Key]:
    """Order groups by size, then by the size of their NUMA node, then by their cards."""
    of_numa = Counter(place.numa_node for place in places)
    return lambda group: (len(group), of_numa[group[0].numa_node], [_order(place) for place in group])


def _by_link(places: Sequence[CardPlace]) -> list[list[CardPlace]]:
    """The link groups, split by NUMA node; a card whose links are unknown is alone."""
    return _grouped(places, lambda place: (place.numa_node, place.link_group or place.index))


def _by_numa(places: Sequence[CardPlace]) -> list[list[CardPlace]]:
    return _grouped(places, lambda place: place.numa_node)


def _grouped(places: Sequence[CardPlace], key: Callable[[CardPlace], Hashable]) -> list[list[CardPlace]]:
    groups: dict[Hashable, list[CardPlace]] = {}
    for place in sorted(places, key=_order):
        groups.setdefault(key(place), []).append(place)
    return list(groups.values())
