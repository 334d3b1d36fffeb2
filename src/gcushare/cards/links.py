"""Which cards have a direct link or one switch between them, asked of the source once per pair and kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import msgspec

from gcushare.cards.errors import LibraryNotOpenError
from gcushare.cards.ports import CardReport, CardSource
from gcushare.core.cards import Card
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields

logger = logging.getLogger(__name__)

Pair = tuple[str, str]
"""The uuids of two cards, in the order of the list."""


class LinkTable:
    """The links that a source reported. Wiring does not change while a machine runs, so each pair is asked once."""

    def __init__(self, source: CardSource) -> None:
        self._source = source
        self._links: dict[Pair, bool] = {}

    async def fill(self, report: CardReport) -> CardReport:
        """Write the link group into every card. If the source reports groups itself, they stay."""
        if any(card.link_group for card in report.cards):
            return report
        uuids = [card.uuid for card in report.cards]
        pairs = list(combinations(uuids, 2))
        self._links = {pair: self._links[pair] for pair in pairs if pair in self._links}
        for card_a, card_b in combinations(report.cards, 2):
            if (card_a.uuid, card_b.uuid) not in self._links:
                try:
                    is_linked = await self._source.are_linked(card_a, card_b)
                except LibraryNotOpenError:
                    break  # no pair can be asked now, which is not their failure; the next poll continues
                except DeviceError as error:
                    # Placement works without it; repeated failures could make a working card unhealthy.
                    facts = fields(cards=f"{card_a.index},{card_b.index}", reason=error)
                    logger.warning("link of cards is unknown %s", facts)
                    self._links[card_a.uuid, card_b.uuid] = False
                    break  # the library may have to be opened and listed again
                self._links[card_a.uuid, card_b.uuid] = is_linked
        groups = link_groups(report.cards, self._links)
        if not any(groups.values()):
            return report
        return replace(
            report, cards=tuple(msgspec.structs.replace(card, link_group=groups[card.uuid]) for card in report.cards)
        )


def link_groups(cards: Sequence[Card], links: Mapping[Pair, bool]) -> dict[str, str]:
    """Name the group of every card by its uuid: cards that links join; "" for a card without one.

    A group is named after its lowest index, so that a card that leaves or comes back renames no other group.
    """
    group_of = {card.uuid: {card.uuid} for card in cards}
    for (uuid_a, uuid_b), is_linked in links.items():
        if is_linked and group_of[uuid_a] is not group_of[uuid_b]:
            joined = group_of[uuid_a] | group_of[uuid_b]
            group_of.update(dict.fromkeys(joined, joined))
    index_of = {card.uuid: card.index for card in cards}
    return {
        uuid: f"link-{min(index_of[member] for member in group)}" if len(group) > 1 else ""
        for uuid, group in group_of.items()
    }
