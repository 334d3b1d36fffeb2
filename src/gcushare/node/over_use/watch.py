"""Find the pods that use more than their grant, after every reading, and post Events when that begins and ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, replace

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Health, Inventory, InventoryCard
from gcushare.core.log_fields import fields
from gcushare.core.over_use.eviction import CardReading
from gcushare.core.over_use.tracking import (
    OverUse,
    OverUseChange,
    OverUseChangeKind,
    OverUseTracker,
    Place,
    PolledUse,
    describe_over_use,
    gib_text,
)
from gcushare.node.api_server import Announcer
from gcushare.node.pod_use import CardPolls, PodMemoryMonitor, granted_bytes
from gcushare.node.pods import NodePods, PodWithCards
from gcushare.wire.annotations import note_since_s

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class OverUseWatch:
    """Compares the readings of ``pod_use`` with the grants; ``began`` counts over-uses since the start.

    ``hands_out_alone``: whether no other system may have given pods these cards, so that a pod without a grant from
    here may use none of them.
    """

    tracker: OverUseTracker
    pod_use: PodMemoryMonitor
    polls: CardPolls
    pods: NodePods
    announcer: Announcer
    _: KW_ONLY
    inventory: Callable[[], Inventory | None]
    hands_out_alone: Callable[[], bool] = lambda: True
    wall_clock_s: Callable[[], float]

    def __post_init__(self) -> None:
        self.began = 0
        self.figures: Mapping[Place, PolledUse] = {}
        """The figures of every pod on every card that the last reading has."""
        self.cards: Mapping[int, CardReading] = {}
        """The cards of the last reading, with the grants that are in danger."""

    @property
    def over(self) -> dict[str, dict[int, OverUse]]:
        """The over-uses of now, by pod uid and card."""
        found: dict[str, dict[int, OverUse]] = {}
        here = self.pods.everyone
        for (uid, index), over in self.tracker.over.items():
            if uid in here:
                found.setdefault(uid, {})[index] = over
        return found

    def on_poll(self) -> None:
        """Process the newest reading."""
        self.figures = self._read_figures()
        self.cards = self._read_cards()
        tight = {index for index, card in self.cards.items() if card.is_tight}
        alive, now_s = self.pods.everyone.keys(), self.wall_clock_s()
        # A card that is gone has no over-use; any other that was not read may have one.
        cards = self.polls.snapshot
        unread = {each.index for each in cards.cards} - cards.gone - (cards.uses.keys() - cards.unread)
        is_blind = bool(unread) or self.pod_use.latest is None or self.inventory() is None
        for change in self.tracker.take(self.figures, alive, now_s, is_blind=is_blind, tight=tight):
            self._announce(change)

    def _read_figures(self) -> dict[Place, PolledUse]:
        found, inventory = self.pod_use.latest, self.inventory()
        if found is None or inventory is None:
            return {}
        cards = self.polls.snapshot
        fresh = {each.index for each in cards.cards} - cards.gone - cards.unread
        figures: dict[Place, PolledUse] = {}
        having, pods = self.pods.entries, self.pods.everyone
        for uid, used_by_card in found.by_pod.items():
            if uid not in having and not self.hands_out_alone():
                continue
            entry = pods[uid]
            granted, limit = entitled_bytes(entry, inventory), inventory.unit.bytes_of(entry.limit)
            for index, used in used_by_card.items():
                if index in fresh:
                    of_card = granted.get(index, 0)
                    figures[uid, index] = PolledUse(
                        used,
                        of_card,
                        limit if of_card else 0,
                        by_driver=(uid, index) in found.by_driver,
                    )
        for uids, units in self.pods.shared():
            for index, count in units.items():
                places = [(uid, index) for uid in sorted(uids) if (uid, index) in figures]
                divide_grant(figures, places, inventory.unit.bytes_of(count))
        return figures

    def _read_cards(self) -> dict[int, CardReading]:
        inventory, found = self.inventory(), self.pod_use.latest
        if inventory is None:
            return {}
        promised, unconfirmed = self.pods.promised(), self.pods.unconfirmed_units()
        whole = self.pods.promised_whole()
        units = inventory.units_by_card
        by_card: dict[int, dict[str, PolledUse]] = {}
        for (uid, index), figures in self.figures.items():
            by_card.setdefault(index, {})[uid] = figures
        readings: dict[int, CardReading] = {}
        cards = self.polls.snapshot
        for each in cards.cards:
            index, use = each.index, cards.uses.get(each.index)
            ended = found.ended.get(index, 0) if found is not None else 0
            kept = units.get(index, 0) if index in whole else promised.get(index, 0)
            readings[index] = CardReading(
                index=index,
                memory=each.memory_bytes,
                in_use=None if use is None or use.memory_used_bytes is None else max(0, use.memory_used_bytes - ended),
                unknown=found.outside.get(index) if found is not None else None,
                figures=by_card.get(index, {}),
                promised=inventory.unit.bytes_of(kept),
                unconfirmed=inventory.unit.bytes_of(unconfirmed.get(index, 0)),
                doubt=_doubt(each, cards),
            )
        return readings

    def _announce(self, change: OverUseChange) -> None:
        uid, index = change.place
        entry = self.pods.everyone[uid]
        figures = self.figures.get(change.place, change.over_use.figures)
        if change.kind is OverUseChangeKind.BEGAN:
            since = note_since_s(entry.annotations, index) if self.tracker.is_first_word else None
            if since is not None:
                # The pod was already over under the process before this one, which reported it. Only at the first
                # reading: otherwise a pod's author could write the annotation to avoid the report.
                self.tracker.adopt(change.place, since)
                return
            self.began += 1
            peak = f", {gib_text(change.over_use.peak)} at its most" if change.over_use.peak > figures.used else ""
            uses = f"{describe_over_use(index, figures)}{peak}"
            words = f"{uses}: other pods of this card may lack what they were granted"
            self.announcer.about_pod(entry.ref, "OverUse", words, warning=True)
        elif change.kind is OverUseChangeKind.ENDED:
            within = "what it may use" if figures.can_burst else "its grant"
            words = f"within {within} again: {describe_over_use(index, figures)}"
            self.announcer.about_pod(entry.ref, "OverUseEnded", words, warning=False)
        else:
            words = f"how much of card {index} it uses is not known any more; it was over its grant before"
            self.announcer.about_pod(entry.ref, "OverUseUnknown", words, warning=False)
        logger.info("over-use %s: %s %s", change.kind.value, words, fields(pod=entry.ref, uid=uid, card=index))


def divide_grant(figures: dict[Place, PolledUse], places: Collection[Place], size: int) -> None:
    """Divide a grant among the pods that share it: it counts in full for each of them before, and once afterwards.

    Each pod gets what it uses, and an equal part of the rest. If all of them use too much together, each gets a part in
    proportion to what it uses, so that each is over by its part.
    """
    own = {place: figures[place].granted - size for place in places}
    needs = {place: max(0, figures[place].used - granted) for place, granted in own.items()}
    total = sum(needs.values())
    for place, need in needs.items():
        part = need * size // total if total > size else need + (size - total) // len(needs)
        figures[place] = replace(figures[place], granted=own[place] + part)


def entitled_bytes(entry: PodWithCards, inventory: Inventory) -> dict[int, int]:
    """The bytes of each card that a pod may use, in its favour while the kubelet has not shown all that it gave.

    Init containers' ids are not shown, and those of a pod that is being admitted come one container at a time.
    """
    found = granted_bytes(entry, inventory)
    for index, units in entry.entitled_units().items():
        found[index] = max(found.get(index, 0), inventory.unit.bytes_of(units))
    return found


def _doubt(card: InventoryCard, found: CardsSnapshot) -> str:
    """Why a card's reading cannot be relied on; "" if it can."""
    if card.index in found.gone:
        return "the card is not listed any more"
    if card.index in found.unread:
        return "the last poll could not read it"
    return f"it is sick: {card.reason}" if card.health is not Health.HEALTHY else ""
