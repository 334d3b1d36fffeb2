"""The cards of this node over time, and whether each is sick: hysteresis over its readings and events. Pure.

``monitor`` passes lists, readings and events with their time, and gets the changes as values. ``now_s`` are seconds of
one clock for all calls.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from gcushare.cards.numbers import number_cards
from gcushare.cards.ports import CardReport, HealthEvent, HealthReading
from gcushare.core.cards import Card, CardUse, Health, Inventory, InventoryCard, LeftOutCard

BAD_READINGS = 3
STALE_AFTER_S = 60.0
"""Time to start the library's process again, more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """How much evidence makes a card unhealthy, and how much makes it healthy again."""

    bad_readings: int = BAD_READINGS
    """Bad readings in a row before a card is unhealthy: one driver hiccup moves no pods. A conclusive one suffices."""
    good_readings: int = 3
    """Good readings in a row before an unhealthy card is healthy again."""
    recover_after_s: float = 30.0
    """How long the good readings must last: a card that comes and goes stays unhealthy."""
    event_holds_s: float = 300.0
    """How long a critical event outweighs good readings: after most events, reads still succeed for a while."""
    stale_after_s: float = STALE_AFTER_S
    """How long the last reading holds without an answer, of the card or of the whole library: several polls."""


_HEALTHY = HealthReading(healthy=True)


class HealthTracker:
    """One card's state: healthy until the first reading, which decides alone. ``verdict`` has state and reason."""

    def __init__(self, policy: HealthPolicy) -> None:
        self._policy = policy
        self._bad_in_a_row = 0
        self._good_in_a_row = 0
        self._good_since_s = 0.0
        self._held_until_s = float("-inf")
        self._last_reading_s: float | None = None
        self.verdict = _HEALTHY

    def record_reading(self, reading: HealthReading, now_s: float) -> HealthReading:
        is_first = self._last_reading_s is None
        self._last_reading_s = now_s
        if not reading.healthy:
            self._record_bad(reading.reason, decides=is_first or reading.conclusive)
            return self.verdict
        self._bad_in_a_row = 0
        if not self.verdict.healthy:
            if self._good_in_a_row == 0:
                self._good_since_s = now_s
            self._good_in_a_row += 1
            is_enough = self._good_in_a_row >= self._policy.good_readings
            lasted = now_s - self._good_since_s >= self._policy.recover_after_s
            if (reading.conclusive or (is_enough and lasted)) and now_s >= self._held_until_s:
                self.verdict = _HEALTHY
        return self.verdict

    def record_critical_event(self, reason: str, now_s: float) -> HealthReading:
        """Record a critical event: the card is unhealthy at once, and for a while even if readings are good."""
        self._held_until_s = now_s + self._policy.event_holds_s
        self._record_bad(reason, decides=True)
        return self.verdict

    def record_miss(self, reason: str, now_s: float) -> HealthReading:
        """Record that the card could not be read: its last reading holds for a while, then it is unhealthy."""
        stale_after_s = self._policy.stale_after_s
        if self._last_reading_s is None:
            self._record_bad(f"no answer yet: {reason}", decides=True)
        elif now_s - self._last_reading_s >= stale_after_s:
            self._record_bad(f"no answer for {stale_after_s:g}s: {reason}", decides=True)
        return self.verdict

    def _record_bad(self, reason: str, *, decides: bool) -> None:
        self._good_in_a_row = 0
        self._bad_in_a_row += 1
        if decides or not self.verdict.healthy or self._bad_in_a_row >= self._policy.bad_readings:
            self.verdict = HealthReading(healthy=False, reason=reason)


@dataclass(frozen=True, slots=True)
class CardsSnapshot:
    """All cards of a node now, by index, with their health. What the node offers of them is decided elsewhere.

    ``uses`` are by card index, of cards that are listed and were read. ``unread`` are cards that the last poll could
    not read, so that their use is of an earlier one. ``gone`` are cards that the source does not list any more.
    ``problem`` is why there are no cards if the source as a whole does not answer.
    """

    cards: tuple[InventoryCard, ...]
    uses: Mapping[int, CardUse] = field(default_factory=dict)
    unread: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()
    left_out: tuple[LeftOutCard, ...] = ()
    driver: str = ""
    problem: str = ""

    def listed_in(self, inventory: Inventory) -> Inventory:
        """An inventory of these cards without those that are gone: another card may have their device nodes."""
        return replace(inventory, cards=tuple(card for card in inventory.cards if card.index not in self.gone))


class CardChangeKind(enum.Enum):
    """What happened to a card; the values are written to the log."""

    APPEARED = "appeared"
    REPLACED = "replaced"
    """Another card (by uuid) at an index that had one."""
    ALTERED = "altered"
    """The same card with another property, for example its size or its number."""
    LOST = "lost"
    """The source stopped listing it; its state stays, unhealthy, until it or another comes."""
    SICK = "sick"
    STILL_SICK = "still sick, for another reason"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class CardChange:
    """One change of one card; ``detail`` is the reason, or what was there before."""

    kind: CardChangeKind
    card: Card
    detail: str = ""


def describe_changes(before: Card, now: Card) -> str:
    """What differs between two states of a card: ``memory_bytes was 17179869184``."""
    was, present = msgspec.structs.asdict(before), msgspec.structs.asdict(now)
    return ", ".join(f"{name} was {value}" for name, value in was.items() if value != present[name])


@dataclass(slots=True)
class _Tracked:
    card: Card
    """As the source lists it, ``index`` being its minor number."""
    health: HealthTracker
    number: int
    use: CardUse | None = None
    is_gone: bool = False
    is_use_old: bool = False

    @property
    def numbered(self) -> Card:
        """The card as everyone else knows it."""
        if self.number == self.card.index:
            return self.card
        return msgspec.structs.replace(self.card, index=self.number, minor=self.card.index)


class CardRoster:
    """The cards that were ever listed, with their numbers and their health.

    If grants follow the card (``by_uuid``), a card is tracked by its uuid, and keeps its number while pods hold that;
    a card that is lost stays until its number is another's. Otherwise a card is what has its minor number, and another
    uuid at that number has replaced it.
    """

    def __init__(self, policy: HealthPolicy, *, by_uuid: bool = False) -> None:
        self._policy = policy
        self._by_uuid = by_uuid
        self._tracked: dict[str | int, _Tracked] = {}
        self._held: dict[str | int, Card] = {}
        self._is_listed = False
        self._report: CardReport = CardReport(cards=())
        self.left_out: tuple[LeftOutCard, ...] = ()
        self.driver = ""

    def snapshot(self, problem: str = "") -> CardsSnapshot:
        tracked = sorted(self._tracked.values(), key=lambda each: each.number)
        return CardsSnapshot(
            cards=tuple(
                InventoryCard(
                    **msgspec.structs.asdict(each.numbered),
                    health=Health.HEALTHY if each.health.verdict.healthy else Health.UNHEALTHY,
                    reason=each.health.verdict.reason,
                )
                for each in tracked
            ),
            uses={each.number: each.use for each in tracked if each.use is not None},
            unread=frozenset(each.number for each in tracked if each.is_use_old),
            gone=frozenset(each.number for each in tracked if each.is_gone),
            left_out=self.left_out,
            driver=self.driver,
            problem="" if tracked else problem,
        )

    @property
    def has_cards(self) -> bool:
        return any(not tracked.is_gone for tracked in self._tracked.values())

    def hold(self, held: Mapping[str, Card], now_s: float) -> list[CardChange]:
        """Keep the number (``index``) of these cards, by uuid, from now on, and of no others.

        One without a uuid is what has its minor number. One that was never listed is lost: pods hold it since before
        the plugin started. Until the source has listed its cards, callers do not see these, so none is let go.
        """
        named: dict[str | int, Card] = {uuid: card for uuid, card in held.items() if uuid}
        if not self._is_listed:
            named = self._held | named
        if not self._by_uuid or named == self._held:
            return []
        self._held = named
        return self.update_list(self._report, now_s) if self._is_listed else []

    def update_list(self, report: CardReport, now_s: float) -> list[CardChange]:
        self._is_listed, self._report = True, report
        listed: dict[str | int, Card] = {}
        left_out = list(report.left_out)
        of_index: dict[int, Card] = {}
        for card in report.cards:
            key = self._key(card)
            if (other := of_index.get(card.index) or listed.get(key)) is not None:
                same = f"index {card.index}" if card.index == other.index else f"uuid {card.uuid}"
                reason = f"{same} belongs to card {other.uuid if card.index == other.index else other.index} already"
                left_out.append(LeftOutCard(index=card.index, uuid=card.uuid, reason=reason))
                continue
            listed[key] = of_index[card.index] = card
        numbers = self._number(listed, left_out)
        self.left_out, self.driver = tuple(left_out), report.driver
        changes: list[CardChange] = []
        for key, number in numbers.items():
            changes += self._place(key, listed[key], number)
        uuids = {card.uuid for card in listed.values()}
        for key, tracked in sorted(self._tracked.items(), key=lambda each: each[1].number):
            if key not in numbers:
                changes += self._lose(tracked, now_s)
                if not self._by_uuid and tracked.card.uuid in uuids:
                    # The card has another minor number now: what was given of this one is of no card.
                    tracked.card = msgspec.structs.replace(tracked.card, uuid="")
        return changes

    def _key(self, card: Card) -> str | int:
        return card.uuid if self._by_uuid and card.uuid else card.index

    def _number(self, listed: dict[str | int, Card], left_out: list[LeftOutCard]) -> dict[str | int, int]:
        """Decide the numbers of the listed cards; forget lost ones whose number is another's now."""
        if not self._by_uuid:
            return {key: card.index for key, card in listed.items()}
        minors = {key: card.index for key, card in listed.items()}
        numbers = number_cards(minors, {key: card.index for key, card in self._held.items()})
        for key, card in listed.items():
            if key not in numbers:
                reason = "pods hold all numbers that device ids have for cards, those of lost cards among them"
                left_out.append(LeftOutCard(index=card.index, uuid=card.uuid, reason=reason))
        for uuid, card in self._held.items():
            if uuid not in self._tracked and uuid not in listed:
                lost = msgspec.structs.replace(card, index=card.minor_number, minor=None)
                self._tracked[uuid] = _Tracked(lost, HealthTracker(self._policy), card.index)
        taken = set(numbers.values())
        for key in [key for key, each in self._tracked.items() if key not in numbers and each.number in taken]:
            del self._tracked[key]
        return numbers

    def record_reading(self, card: Card, reading: HealthReading, now_s: float) -> list[CardChange]:
        return self._update_health(card, lambda tracker: tracker.record_reading(reading, now_s))

    def record_event(self, event: HealthEvent, now_s: float) -> list[CardChange]:
        """Record an event; one that is not critical, or names an unknown card, changes nothing by itself."""
        if not event.critical:
            return []
        cards = [tracked.card for tracked in self._tracked.values() if tracked.card.uuid == event.uuid]
        return [
            change
            for card in cards
            for change in self._update_health(card, lambda t: t.record_critical_event(event.reason, now_s))
        ]

    def record_no_answer(self, reason: str, now_s: float) -> list[CardChange]:
        changes: list[CardChange] = []
        for tracked in sorted(self._tracked.values(), key=lambda each: each.number):
            changes += self.record_miss(tracked.card, reason, now_s)
        return changes

    def record_miss(self, card: Card, reason: str, now_s: float) -> list[CardChange]:
        """Record that one card could not be read."""
        if (tracked := self._find(card)) is not None:
            tracked.is_use_old = True
        return self._update_health(card, lambda tracker: tracker.record_miss(reason, now_s))

    def record_use(self, card: Card, use: CardUse | None) -> None:
        """Record what a card is doing; None if unknown."""
        if (tracked := self._find(card)) is not None:
            tracked.use, tracked.is_use_old = use, False

    def _find(self, card: Card) -> _Tracked | None:
        tracked = self._tracked.get(self._key(card))
        return tracked if tracked is not None and tracked.card.uuid == card.uuid else None

    def _place(self, key: str | int, card: Card, number: int) -> list[CardChange]:
        tracked = self._find(card)
        if tracked is None:
            before = self._tracked.get(key)
            tracked = self._tracked[key] = _Tracked(card, HealthTracker(self._policy), number)
            if before is None:
                about = f"{card.memory_bytes} bytes, {card.model}"
                return [CardChange(CardChangeKind.APPEARED, tracked.numbered, about)]
            return [CardChange(CardChangeKind.REPLACED, tracked.numbered, before.card.uuid)]
        was = tracked.numbered
        tracked.card, tracked.number, tracked.is_gone = card, number, False
        now = tracked.numbered
        return [CardChange(CardChangeKind.ALTERED, now, describe_changes(was, now))] if now != was else []

    def _lose(self, tracked: _Tracked, now_s: float) -> list[CardChange]:
        reasons = {card.uuid: card.reason for card in self.left_out if card.uuid}
        reason = reasons.get(tracked.card.uuid, "the card is no longer listed by its driver")
        reading = HealthReading(healthy=False, reason=reason, conclusive=True)
        changes = self._update_health(tracked.card, lambda tracker: tracker.record_reading(reading, now_s))
        if tracked.is_gone:
            return changes
        tracked.is_gone, tracked.use = True, None
        return [CardChange(CardChangeKind.LOST, tracked.numbered, reason)]

    def _update_health(self, card: Card, update: Callable[[HealthTracker], HealthReading]) -> list[CardChange]:
        if (tracked := self._find(card)) is None:
            return []
        before = tracked.health.verdict
        verdict = update(tracked.health)
        if verdict == before:
            return []
        if verdict.healthy:
            return [CardChange(CardChangeKind.RECOVERED, tracked.numbered)]
        kind = CardChangeKind.SICK if before.healthy else CardChangeKind.STILL_SICK
        return [CardChange(kind, tracked.numbered, verdict.reason)]
