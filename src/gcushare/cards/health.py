"""The cards of this node over time, and whether each is sick: hysteresis over its readings and events. Pure.

``monitor`` passes lists, readings and events with their time, and gets the changes as values. ``now_s`` are seconds of
one clock for all calls.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from gcushare.cards.ports import CardReport, HealthEvent, HealthReading
from gcushare.core.cards import Card, CardUse, Health, InventoryCard, LeftOutCard

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


class CardChangeKind(enum.Enum):
    """What happened to a card; the values are written to the log."""

    APPEARED = "appeared"
    REPLACED = "replaced"
    """Another card (by uuid) at an index that had one."""
    ALTERED = "altered"
    """The same card with another property, for example its size."""
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


@dataclass(slots=True)
class _Tracked:
    card: Card
    health: HealthTracker
    use: CardUse | None = None
    is_gone: bool = False
    is_use_old: bool = False


class CardRoster:
    """Every card that was ever listed, by index, with its health."""

    def __init__(self, policy: HealthPolicy) -> None:
        self._policy = policy
        self._tracked: dict[int, _Tracked] = {}
        self.left_out: tuple[LeftOutCard, ...] = ()
        self.driver = ""

    def snapshot(self, problem: str = "") -> CardsSnapshot:
        tracked = sorted(self._tracked.items())
        return CardsSnapshot(
            cards=tuple(
                InventoryCard(
                    **msgspec.structs.asdict(each.card),
                    health=Health.HEALTHY if each.health.verdict.healthy else Health.UNHEALTHY,
                    reason=each.health.verdict.reason,
                )
                for _, each in tracked
            ),
            uses={index: each.use for index, each in tracked if each.use is not None},
            unread=frozenset(index for index, each in tracked if each.is_use_old),
            gone=frozenset(index for index, each in tracked if each.is_gone),
            left_out=self.left_out,
            driver=self.driver,
            problem="" if tracked else problem,
        )

    @property
    def has_cards(self) -> bool:
        return any(not tracked.is_gone for tracked in self._tracked.values())

    def update_list(self, report: CardReport, now_s: float) -> list[CardChange]:
        changes: list[CardChange] = []
        listed: dict[int, Card] = {}
        twice: list[LeftOutCard] = []
        for card in report.cards:
            if card.index in listed:
                reason = f"index {card.index} belongs to card {listed[card.index].uuid} already"
                twice.append(LeftOutCard(index=card.index, uuid=card.uuid, reason=reason))
                continue
            listed[card.index] = card
            changes += self._place(card)
        self.left_out = (*report.left_out, *twice)
        self.driver = report.driver
        for index in sorted(self._tracked.keys() - listed.keys()):
            changes += self._lose(self._tracked[index], now_s)
        return changes

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
        for index in sorted(self._tracked):
            changes += self.record_miss(self._tracked[index].card, reason, now_s)
        return changes

    def record_miss(self, card: Card, reason: str, now_s: float) -> list[CardChange]:
        """Record that one card could not be read."""
        tracked = self._tracked.get(card.index)
        if tracked is not None and tracked.card.uuid == card.uuid:
            tracked.is_use_old = True
        return self._update_health(card, lambda tracker: tracker.record_miss(reason, now_s))

    def record_use(self, card: Card, use: CardUse | None) -> None:
        """Record what a card is doing; None if unknown."""
        tracked = self._tracked.get(card.index)
        if tracked is not None and tracked.card.uuid == card.uuid:
            tracked.use, tracked.is_use_old = use, False

    def _place(self, card: Card) -> list[CardChange]:
        tracked = self._tracked.get(card.index)
        if tracked is None or tracked.card.uuid != card.uuid:
            self._tracked[card.index] = _Tracked(card, HealthTracker(self._policy))
            if tracked is None:
                return [CardChange(CardChangeKind.APPEARED, card, f"{card.memory_bytes} bytes, {card.model}")]
            return [CardChange(CardChangeKind.REPLACED, card, tracked.card.uuid)]
        before, tracked.card, tracked.is_gone = tracked.card, card, False
        return [CardChange(CardChangeKind.ALTERED, card, str(before))] if card != before else []

    def _lose(self, tracked: _Tracked, now_s: float) -> list[CardChange]:
        reasons = {card.uuid: card.reason for card in self.left_out}
        reason = reasons.get(tracked.card.uuid, "the card is no longer listed by its driver")
        reading = HealthReading(healthy=False, reason=reason, conclusive=True)
        changes = self._update_health(tracked.card, lambda tracker: tracker.record_reading(reading, now_s))
        if tracked.is_gone:
            return changes
        tracked.is_gone, tracked.use = True, None
        return [CardChange(CardChangeKind.LOST, tracked.card, reason)]

    def _update_health(self, card: Card, update: Callable[[HealthTracker], HealthReading]) -> list[CardChange]:
        tracked = self._tracked.get(card.index)
        if tracked is None or tracked.card.uuid != card.uuid:
            return []
        before = tracked.health.verdict
        verdict = update(tracked.health)
        if verdict == before:
            return []
        if verdict.healthy:
            return [CardChange(CardChangeKind.RECOVERED, tracked.card)]
        kind = CardChangeKind.SICK if before.healthy else CardChangeKind.STILL_SICK
        return [CardChange(kind, tracked.card, verdict.reason)]
