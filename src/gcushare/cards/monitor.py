"""The owner of a node's card source: looks at the cards again and again and says what changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gcushare.cards.health import CardChange, CardRoster, CardsSnapshot, ChangeKind, HealthPolicy
from gcushare.cards.links import LinkTable
from gcushare.cards.ports import CardSource
from gcushare.core.cards import Card
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields

logger = logging.getLogger(__name__)

_LOG_LEVELS = {
    ChangeKind.APPEARED: logging.INFO,
    ChangeKind.REPLACED: logging.WARNING,
    ChangeKind.ALTERED: logging.WARNING,
    ChangeKind.LOST: logging.ERROR,
    ChangeKind.SICK: logging.ERROR,
    ChangeKind.STILL_SICK: logging.WARNING,
    ChangeKind.RECOVERED: logging.INFO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """How often to look; in seconds."""

    poll_interval_s: float = 5.0
    """Between two looks at the cards; events of the library shorten it."""
    no_cards_interval_s: float = 15.0
    """Between two looks for cards while there are none: each may start a process to load a library."""
    least_interval_s: float = 0.2
    """Between two looks however many events come."""
    policy: HealthPolicy = field(default_factory=HealthPolicy)


class CardMonitor:
    """Watches one source for as long as it runs. Without cards it stays up, says so in ``problem`` and looks again.

    ``on_change`` is called in the event loop after a look or an event that changed something. It must not block.
    """

    def __init__(
        self,
        source: CardSource,
        on_change: Callable[[CardsSnapshot], None],
        settings: MonitorSettings = MonitorSettings(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._links = LinkTable(source)
        self._on_change = on_change
        self._settings = settings
        self._clock = clock
        self._roster = CardRoster(settings.policy)
        self._looked = asyncio.Event()
        """Set at the end of the look to come, which then puts another in its place."""
        self.problem = "the cards have not been looked at yet"
        self.looks = 0
        """Looks that came to their end, as the proof of progress."""

    @property
    def snapshot(self) -> CardsSnapshot:
        """All that is known of the cards, as of the last look."""
        return self._roster.snapshot(self.problem)

    async def wait_look(self, after: int = 0) -> int:
        """Wait until more than ``after`` looks have come to their end, with whatever result; return how many have."""
        while self.looks <= after:
            await self._looked.wait()
        return self.looks

    async def run(self) -> None:
        """Look until cancelled; then give the source back."""
        try:
            while True:
                await self.look()
                await self._wait_for_next_look()
        finally:
            await self._source.close()

    async def look(self) -> None:
        """Look at every card once; report what changed."""
        try:
            report = await self._links.fill(await self._source.list_cards())
        except DeviceError as error:
            self._note_problem(str(error))
            changes = self._roster.record_no_answer(str(error), self._clock())
        else:
            self._note_problem("" if report.cards else f"{self._source.name} lists no card that can be shared")
            changes = self._roster.take_list(report, self._clock())
            for card in report.cards:
                changes += await self._look_at(card)
        self._report(changes)
        self.looks += 1
        self._looked.set()
        self._looked = asyncio.Event()

    async def _look_at(self, card: Card) -> list[CardChange]:
        try:
            reading = await self._source.health(card)
        except DeviceError as error:
            return self._roster.record_miss(card, str(error), self._clock())
        changes = self._roster.record_reading(card, reading, self._clock())
        use = None
        if reading.healthy:
            with contextlib.suppress(DeviceError):  # its health was read above, what it does is only a report
                use = await self._source.use(card)
        self._roster.record_use(card, use)
        return changes

    async def _wait_for_next_look(self) -> None:
        """Wait for the time of the next look, or for an event that asks for one."""
        settings = self._settings
        has_cards = self._roster.has_cards
        started_s = self._clock()
        due_s = started_s + (settings.poll_interval_s if has_cards else settings.no_cards_interval_s)
        while (left_s := due_s - self._clock()) > 0:
            event = await self._source.wait_event(left_s)
            if event is not None:
                facts = fields(source=self._source.name, uuid=event.uuid, reason=event.reason)
                logger.info("card event %s", facts)
                self._report(self._roster.record_event(event, self._clock()))
                break
        await asyncio.sleep(max(0.0, started_s + settings.least_interval_s - self._clock()))

    def _report(self, changes: Sequence[CardChange]) -> None:
        for change in changes:
            card = change.card
            facts = fields(card=card.index, uuid=card.uuid, detail=change.detail)
            logger.log(_LOG_LEVELS[change.kind], "card %s %s", change.kind.value, facts)
        if changes:
            self._on_change(self.snapshot)

    def _note_problem(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("no cards to share %s", fields(source=self._source.name, reason=problem))
        self.problem = problem
