"""A source of cards that is safe from hangs and crashes of the vendor's library.

The library is loaded in a worker process. A call that hangs or crashes costs that process and makes the card that the
call was for unhealthy. The card's calls pause for a growing time; a new worker serves the other cards at once.

A library numbers its cards each time it is opened. So the source first checks which card a slot holds now. A card that
moved to another slot is not asked anything before the next list.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from gcushare.cards.errors import (
    CardMovedError,
    LibraryCallError,
    LibraryMissingError,
    LibraryNotOpenError,
)
from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.plausible import check_count, sanitize_card, sanitize_use
from gcushare.cards.ports import CardReport, GroupMemory, HealthEvent, HealthReading, LinkLevel
from gcushare.cards.worker import time_limits
from gcushare.cards.worker.messages import (
    Described,
    EventAnswer,
    GroupAnswer,
    LinkAnswer,
    Opened,
    Operation,
    WorkerRequest,
)
from gcushare.cards.worker.process import WorkerLostError, WorkerProcess
from gcushare.cards.worker.time_limits import IsolationSettings, Pauses
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields

logger = logging.getLogger(__name__)

T = TypeVar("T")

_START = "start"
_EVENTS = "events"
_REOPEN = "reopen"


@dataclass(eq=False)
class IsolatedSource:
    """The ``CardSource`` of a vendor's library in a worker process."""

    spec: LibrarySpec
    settings: IsolationSettings = time_limits.DEFAULT_LIMITS
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._lock = asyncio.Lock()  # a worker answers one request at a time
        self._worker: WorkerProcess | None = None
        self._opened = Opened(library="", driver="")  # by the last worker
        self._known: dict[int, Card] = {}  # by slot, as of the last list
        self._numbered: dict[int, str] = {}  # uuids by slot, as the running worker numbers them
        self._last_count = 0
        self._lost: set[str] = set()  # uuids of cards for which the library is opened again
        self._pauses = Pauses()  # of a card's calls by slot and operation, of reopening for a card, of the library
        self._has_events = True
        self._closed = False

    @property
    def name(self) -> str:
        """The library's name, with the file that was loaded."""
        library = self._opened.library or self.spec.library
        return f"{self.spec.kind} ({library})" if library else self.spec.kind

    @property
    def worker_pid(self) -> int | None:
        return self._worker.pid if self._worker is not None else None

    async def list_cards(self) -> CardReport:
        """List the cards. One that cannot be described now stays as it was, or is left out with the reason.

        Raises:
            LibraryNotOpenError: the library is missing or does not open.
            DeviceError: it does not answer how many cards there are.
        """
        if self._lost:
            # Most libraries find a card that came back only when they initialise.
            lost, self._lost = self._lost, set()
            worker = await self._stop()
            for uuid in lost:
                self._pauses.fail((_REOPEN, uuid), self.settings.card_pauses, self.clock(), _REOPEN, worker)
        count = await self._count()
        known: dict[int, Card] = {}
        remembered: set[int] = set()
        left_out: list[LeftOutCard] = []
        for slot in range(count):
            found = await self._describe(slot)
            if isinstance(found, Card):
                known[slot] = found
            elif isinstance(found, LeftOutCard):
                left_out.append(found)
            elif slot in self._known:
                known[slot] = self._known[slot]
                remembered.add(slot)
            else:
                left_out.append(LeftOutCard(index=slot, uuid="", reason=found))
        # A card of an earlier list that another slot holds now is dropped: the library has renumbered its cards.
        listed = {card.uuid for slot, card in known.items() if slot not in remembered}
        self._known = {slot: card for slot, card in known.items() if slot not in remembered or card.uuid not in listed}
        for slot in known.keys() - self._known.keys():
            for operation in Operation:
                # The pauses were not for the card that is at this slot now.
                self._pauses.succeed((slot, operation))
        cards = sorted(self._known.values(), key=lambda card: (card.index, card.uuid))
        left_out.sort(key=lambda card: (card.index, card.uuid))
        if count == 0:
            await self._start_over("no card")  # the next poll loads the library again: a driver may have been installed
        return CardReport(cards=tuple(cards), left_out=tuple(left_out), driver=self._opened.driver)

    async def health(self, card: Card) -> HealthReading:
        """Read one card's health; a call that hangs or crashes makes this card unhealthy.

        Raises:
            LibraryNotOpenError: the library cannot be opened again.
            CardMovedError: the library was opened again and lists the card at another slot.
        """
        slot = self._slot(card)
        if slot is None:
            return HealthReading(healthy=False, reason="the library no longer lists the card", lost=True)
        pause_reason = self._pause_reason(slot)
        if pause_reason is not None:
            return HealthReading(healthy=False, reason=pause_reason, conclusive=True)
        try:
            reading = await self._ask_card(WorkerRequest(Operation.HEALTH, slot), HealthReading, card)
        except WorkerLostError as error:
            return HealthReading(healthy=False, reason=self._describe_loss(error, slot), conclusive=True)
        except LibraryCallError as error:
            is_lost = error.failure.is_lost
            reading = HealthReading(healthy=False, reason=str(error), conclusive=is_lost, lost=is_lost)
        if reading.lost and self._pauses.blocked_by((_REOPEN, card.uuid), self.clock()) is None:
            # Reopened before the next list: doing it now could renumber the cards of this poll.
            self._lost.add(card.uuid)
        elif reading.healthy:
            self._pauses.succeed((_REOPEN, card.uuid))
        return reading

    async def use(self, card: Card) -> CardUse:
        """Read a card's measurements, without those that ``plausible`` drops."""
        return sanitize_use(await self._ask_card(WorkerRequest(Operation.USE, self._open_slot(card)), CardUse, card))

    async def link_level(self, card_a: Card, card_b: Card) -> LinkLevel | None:
        """The nearest connection of two cards; None if one is not listed or the connection is unknown."""
        slots = (self._slot(card_a), self._slot(card_b))
        if slots[0] is None or slots[1] is None:
            return None
        pause_reason = self._pauses.blocked_by((slots[0], Operation.LINK), self.clock())
        if pause_reason is not None:
            raise DeviceError(pause_reason)
        answer = await self._ask_card(WorkerRequest(Operation.LINK, slots[0], slots[1]), LinkAnswer, card_a, card_b)
        return answer.level

    async def group_memory(self, card: Card, group: str) -> GroupMemory | None:
        """A control group's limit and use of a card; None if the driver counts nothing there."""
        return await self._ask_of_group(WorkerRequest(Operation.GROUP_MEMORY, group=group), card)

    async def limit_group(self, card: Card, group: str, hard_bytes: int | None) -> GroupMemory | None:
        """Set a control group's hard limit of a card, None for none; returns what the driver has after that."""
        return await self._ask_of_group(WorkerRequest(Operation.LIMIT_GROUP, group=group, hard_bytes=hard_bytes), card)

    async def _ask_of_group(self, request: WorkerRequest, card: Card) -> GroupMemory | None:
        request = msgspec.structs.replace(request, slot=self._open_slot(card))
        return (await self._ask_card(request, GroupAnswer, card)).memory

    def _open_slot(self, card: Card) -> int:
        """Where a card stands in the library's list.

        Raises:
            DeviceError: it is not listed, or calls about it pause.
        """
        slot = self._slot(card)
        if slot is None:
            raise DeviceError(f"card {card.index} ({card.uuid}) is not listed by {self.name}")
        pause_reason = self._pause_reason(slot)
        if pause_reason is not None:
            raise DeviceError(pause_reason)
        return slot

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """Wait up to ``timeout_s`` seconds for an event, even if the library has none or its calls pause."""
        now_s = self.clock()
        can_wait = self._worker is not None and self._has_events
        if can_wait and self._pauses.blocked_by(_EVENTS, now_s) is None:
            try:
                answer = await self._ask(
                    WorkerRequest(Operation.EVENT, timeout_s=timeout_s),
                    EventAnswer,
                    timeout_s + self.settings.call_timeout_s,
                )
            except DeviceError as error:
                if isinstance(error, LibraryCallError) and error.failure.is_unsupported:
                    self._has_events = False
                    logger.info("library has no events, cards are polled %s", fields(source=self.name))
                else:
                    process = error.process if isinstance(error, WorkerLostError) else None
                    wait_s = self._pauses.fail(_EVENTS, self.settings.library_pauses, self.clock(), str(error), process)
                    facts = fields(source=self.spec.kind, rest_s=wait_s, reason=error)
                    logger.warning("waiting for events failed %s", facts)
            else:
                self._pauses.succeed(_EVENTS)
                if answer.event is not None:
                    return answer.event
        # Also if the library answered at once without an event: it is not asked in a tight loop.
        await asyncio.sleep(max(0.0, timeout_s - (self.clock() - now_s)))
        return None

    async def close(self) -> None:
        """End the worker; later calls raise ``LibraryNotOpenError``."""
        self._closed = True
        await self._stop()

    async def _count(self) -> int:
        try:
            count = await self._ask(WorkerRequest(Operation.COUNT), int, self.settings.call_timeout_s)
        except LibraryCallError as error:
            await self._start_over(str(error))  # the library as a whole fails: initialise it again
            raise
        except WorkerLostError as error:
            self._pauses.fail(_START, self.settings.library_pauses, self.clock(), str(error), error.process)
            raise
        self._pauses.succeed(_START)
        if count != self._last_count:
            self._numbered.clear()  # a card came or went, so those after it may have moved
        self._last_count = count
        return check_count(count)

    async def _describe(self, slot: int) -> Card | LeftOutCard | str:
        reason = self._pause_reason(slot)
        if reason is not None:
            return reason
        try:
            found = _card_of(await self._ask_card(WorkerRequest(Operation.DESCRIBE, slot), Described), slot)
        except LibraryCallError as error:
            return str(error)
        except WorkerLostError as error:
            return self._describe_loss(error, slot)
        self._numbered[slot] = found.uuid
        return found

    async def _ask_card(self, request: WorkerRequest, result_type: type[T], *cards: Card) -> T:
        """Ask about the cards that the request's slots had in the last list; a lost worker pauses the card's calls."""
        slot = request.slot
        try:
            result = await self._ask(request, result_type, self.settings.call_timeout_s, cards)
        except WorkerLostError as error:
            key, reason = (slot, request.operation), self._describe_loss(error, slot)
            wait_s = self._pauses.fail(key, self.settings.card_pauses, self.clock(), reason, error.process)
            card = self._index(slot)
            facts = fields(source=self.spec.kind, card=card, call=error.call, rest_s=wait_s, reason=error)
            logger.warning("card's calls pause after a library call %s", facts)
            raise
        self._pauses.succeed((slot, request.operation))
        return result

    async def _ask(
        self, request: WorkerRequest, result_type: type[T], timeout_s: float, cards: Sequence[Card] = ()
    ) -> T:
        async with self._lock:
            worker = await self._running()
            try:
                for slot, card in zip((request.slot, request.other_slot), cards, strict=False):
                    if self._numbered.get(slot) != card.uuid:
                        # Check that the slot still holds the card.
                        describe = WorkerRequest(Operation.DESCRIBE, slot)
                        described = await worker.call(describe, Described, self.settings.call_timeout_s)
                        self._numbered[slot] = _card_of(described, slot).uuid
                        if self._numbered[slot] != card.uuid:
                            raise CardMovedError(card.index, card.uuid)
                return await worker.call(request, result_type, timeout_s)
            except (LibraryCallError, CardMovedError):
                raise
            except BaseException as error:
                self._worker = None
                await worker.close()
                if isinstance(error, WorkerLostError):
                    error.process = worker
                raise

    async def _running(self) -> WorkerProcess:
        """The worker, which is started if there is none, unless a start failed a moment ago."""
        if self._closed:
            raise LibraryNotOpenError(f"source {self.spec.kind} is closed")
        if self._worker is not None:
            return self._worker
        pause_reason = self._pauses.blocked_by(_START, self.clock())
        if pause_reason is not None:
            raise LibraryNotOpenError(pause_reason)
        worker = None
        try:
            worker = WorkerProcess(self.spec)
            self._opened = await worker.open(self.settings.open_timeout_s)
        except DeviceError as error:
            self._pauses.fail(_START, self.settings.library_pauses, self.clock(), str(error), worker)
            if isinstance(error, LibraryMissingError):
                raise
            raise LibraryNotOpenError(str(error)) from error  # not the failure of a card's call
        self._has_events = True
        self._worker, self._numbered = worker, {}
        logger.info("library opened %s", fields(source=self.name, driver=self._opened.driver, pid=worker.pid))
        return worker

    async def _stop(self) -> WorkerProcess | None:
        """End the worker and return it: it may be stuck in the library's last call."""
        async with self._lock:
            worker, self._worker = self._worker, None
            if worker is not None:
                await worker.close()
            return worker

    async def _start_over(self, reason: str) -> None:
        """End the worker, so that the next poll opens the library again unless the worker does not end."""
        worker = await self._stop()
        if worker is not None and worker.is_running:
            self._pauses.fail(_START, self.settings.library_pauses, self.clock(), reason, worker)

    def _slot(self, card: Card) -> int | None:
        return next((slot for slot, known in self._known.items() if known.uuid == card.uuid), None)

    def _index(self, slot: int) -> int:
        known = self._known.get(slot)
        return known.index if known is not None else slot

    def _pause_reason(self, slot: int) -> str | None:
        now_s = self.clock()
        for operation in Operation:
            reason = self._pauses.blocked_by((slot, operation), now_s)
            if reason is not None and operation is not Operation.LINK:  # which says nothing about a card's health
                return reason
        return None

    def _describe_loss(self, error: WorkerLostError, slot: int) -> str:
        return f"library call {error.call} on card {self._index(slot)} {error.end}"


def _card_of(described: Described, slot: int) -> Card | LeftOutCard:
    found = described.card or described.left_out
    return sanitize_card(found or LeftOutCard(index=slot, uuid="", reason="the library describes no card"), slot)
