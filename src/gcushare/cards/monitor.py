"""The owner of a node's card source: polls the cards and reports what changed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gcushare.cards.health import CardChange, CardChangeKind, CardRoster, CardsSnapshot, HealthPolicy
from gcushare.cards.links import LinkTable
from gcushare.cards.ports import CardSource
from gcushare.core.cards import Card, LeftOutCard
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields
from gcushare.core.wording import index_text

logger = logging.getLogger(__name__)

_LOG_LEVELS = {
    CardChangeKind.APPEARED: logging.INFO,
    CardChangeKind.REPLACED: logging.WARNING,
    CardChangeKind.ALTERED: logging.WARNING,
    CardChangeKind.LOST: logging.ERROR,
    CardChangeKind.SICK: logging.ERROR,
    CardChangeKind.STILL_SICK: logging.WARNING,
    CardChangeKind.RECOVERED: logging.INFO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """How often to poll; in seconds."""

    poll_interval_s: float
    """Between two polls of the cards; events of the library shorten it."""
    no_cards_interval_s: float = 15.0
    """Between two polls while there are no cards: each may start a process to load a library."""
    least_interval_s: float = 0.2
    """The least time between two polls, however many events come."""
    policy: HealthPolicy
    by_uuid: bool = False
    """Whether grants follow a card wherever its driver lists it; see ``CardRoster``."""


def none_shared(source: str, left_out: Sequence[LeftOutCard]) -> str:
    """Say that a source has no card to share; of cards that are left out, which ones and why."""
    reasons: dict[str, list[int]] = {}
    for card in left_out:
        reasons.setdefault(card.reason, []).append(card.index)
    named = (f"card{'s' if len(cards) > 1 else ''} {index_text(cards)}: {why}" for why, cards in reasons.items())
    return f"{source} lists no card that can be shared{': ' if left_out else ''}{'; '.join(named)}"


@dataclass(eq=False)
class CardMonitor:
    """Polls one source while it runs. Without cards it sets ``problem`` and polls again.

    ``on_change`` is called in the event loop after a poll or an event that changed something. It must not block.
    """

    source: CardSource
    on_change: Callable[[CardsSnapshot], None]
    settings: MonitorSettings
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._links = LinkTable(self.source)
        self._roster = CardRoster(self.settings.policy, by_uuid=self.settings.by_uuid)
        self._polled = asyncio.Event()
        """Set at the end of the next poll, which then replaces it."""
        self.problem = "the cards have not been polled yet"
        self._reported: tuple[str, tuple[LeftOutCard, ...]] = (self.problem, ())
        self.polls = 0
        """Polls that ended, as proof of progress."""

    @property
    def snapshot(self) -> CardsSnapshot:
        return self._roster.snapshot(self.problem)

    def hold(self, held: Mapping[str, Card]) -> None:
        """Keep the numbers of these cards, by uuid, from now on, and of no others; report what that changes."""
        self._report(self._roster.hold(held, self.clock()))

    async def wait_poll(self, after: int = 0) -> int:
        """Wait until more than ``after`` polls have ended, with any result; return how many have."""
        while self.polls <= after:
            await self._polled.wait()
        return self.polls

    async def run(self) -> None:
        """Poll until cancelled, then close the source."""
        try:
            while True:
                await self.poll()
                await self._wait_for_next_poll()
        finally:
            await self.source.close()

    async def poll(self) -> None:
        """Poll every card once and report what changed."""
        try:
            report = await self._links.fill(await self.source.list_cards())
        except DeviceError as error:
            self._update_problem(str(error))
            changes = self._roster.record_no_answer(str(error), self.clock())
        else:
            self._update_problem("" if report.cards else none_shared(self.source.name, report.left_out))
            changes = self._roster.update_list(report, self.clock())
            for card in report.cards:
                reading = report.readings.get(card.uuid)
                if reading is None:
                    changes += self._roster.record_miss(card, report.problem, self.clock())
                else:
                    changes += self._roster.record_reading(card, reading, self.clock())
                    self._roster.record_use(card, report.uses.get(card.uuid))
        self._report(changes)
        self.polls += 1
        self._polled.set()
        self._polled = asyncio.Event()

    async def _wait_for_next_poll(self) -> None:
        settings = self.settings
        has_cards = self._roster.has_cards
        started_s = self.clock()
        due_s = started_s + (settings.poll_interval_s if has_cards else settings.no_cards_interval_s)
        while (left_s := due_s - self.clock()) > 0:
            event = await self.source.wait_event(left_s)
            if event is not None:
                facts = fields(source=self.source.name, uuid=event.uuid, reason=event.reason)
                logger.info("card event %s", facts)
                self._report(self._roster.record_event(event, self.clock()))
                break
        await asyncio.sleep(max(0.0, started_s + settings.least_interval_s - self.clock()))

    def _report(self, changes: Sequence[CardChange]) -> None:
        for change in changes:
            card = change.card
            facts = fields(card=card.index, uuid=card.uuid, detail=change.detail)
            logger.log(_LOG_LEVELS[change.kind], "card %s %s", change.kind.value, facts)
        found = self.snapshot
        if changes or self._reported != (found.problem, found.left_out):
            self._reported = found.problem, found.left_out
            self.on_change(found)

    def _update_problem(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("no cards to share %s", fields(source=self.source.name, reason=problem))
        self.problem = problem
