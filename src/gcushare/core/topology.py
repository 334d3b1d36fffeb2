"""Cards that are close together: for pods that want several of them whole.

Closeness has two levels: a link group (cards with a direct link or one switch between them) lies within a NUMA node,
where the machine tells. Where it tells nothing all cards are equally close.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardPlace:
    """Where one card sits; ``numa_node`` None and ``link_group`` "" where the machine does not tell."""

    index: int
    numa_node: int | None = None
    link_group: str = ""


def choose_close_cards(places: Sequence[CardPlace], count: int) -> tuple[int, ...] | None:
    """Choose ``count`` cards that are as close as can be; None when there are fewer.

    The tightest group that is large enough is used up first, so that larger ones stay whole for pods that need them;
    equal groups are told apart by their lowest card. Where no group is large enough, whole groups are joined, the
    largest first.
    """
    if count <= 0 or len(places) < count:
        return None
    for groups in (_grouped(places, by_link=True), _grouped(places, by_link=False)):
        large = [group for group in groups if len(group) >= count]
        if large:
            return tuple(min(large, key=lambda group: (len(group), group))[:count])
    joined = [index for group in sorted(_grouped(places, by_link=False), key=lambda g: (-len(g), g)) for index in group]
    return tuple(sorted(joined[:count]))


def spread_over_numa(places: Iterable[CardPlace]) -> int:
    """How many NUMA nodes cards lie on; 1 where the machine does not tell."""
    return len({place.numa_node for place in places}) or 1


def _grouped(places: Sequence[CardPlace], *, by_link: bool) -> list[list[int]]:
    """Card indexes by link group, or by NUMA node; cards of unknown link are a group of their NUMA node."""
    groups: dict[tuple[int | None, str], list[int]] = {}
    for place in sorted(places, key=lambda place: place.index):
        groups.setdefault((place.numa_node, place.link_group if by_link else ""), []).append(place.index)
    return list(groups.values())
