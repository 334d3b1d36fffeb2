"""A source of cards that is safe from hangs and crashes of the vendor's library.

The library is loaded in a worker process, which reads one card at a time. A call that hangs or crashes costs that
process and makes the card that the call was for unhealthy. The card's calls pause for a growing time; a new worker
serves the other cards at once.

A library numbers its cards each time it is opened. A card that is not listed stays as it was while a slot does not say
which card it has: it may be that one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from gcushare.cards.errors import LibraryCallError, LibraryNotOpenError
from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.plausible import check_count, sanitize_card, sanitize_use
from gcushare.cards.ports import CardReport, GroupMemory, HealthEvent, HealthReading
from gcushare.cards.worker import time_limits
from gcushare.cards.worker.messages import (
    CardAnswer,
    EventAnswer,
    GroupAnswer,
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
    """The ``CardSource`` of a vendor's library in a worker process, and its ``LimitSource`` without ``reads``."""

    spec: LibrarySpec
    settings: IsolationSettings = time_limits.DEFAULT_LIMITS
    clock: Callable[[], float] = time.monotonic
    reads: bool = True

    def __post_init__(self) -> None:
        self._lock = asyncio.Lock()  # a worker answers one request at a time
        self._worker: WorkerProcess | None = None
        self._opened = Opened(library="", driver="")  # by the last worker
        self._listed: tuple[Card, ...] = ()
        self._at: dict[int, Card] = {}  # by slot, as of the last list that said it
        self._lost: set[str] = set()  # the uuids of lost cards that were not said since
        self._pauses = Pauses()  # of a card's calls by slot or uuid, of reopening for lost cards, of the library
        self._has_events = True
        self._operation = Operation.READ if self.reads else Operation.DESCRIBE
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
        """List and read the cards. One that cannot be described now stays as it was, or is left out with the reason.

        Raises:
            LibraryNotOpenError: the library is missing or does not open.
            DeviceError: it does not answer how many cards there are.
        """
        if not self._lost:
            self._pauses.succeed(_REOPEN)
        elif self._pauses.blocked_by(_REOPEN, self.clock()) is None:
            # Most libraries find a card that came back only when they initialise.
            self._pauses.fail(_REOPEN, self.settings.card_pauses, self.clock(), _REOPEN, await self._stop())
        count = await self._count()
        cards: list[Card] = []
        left_out: list[LeftOutCard] = []
        readings: dict[str, HealthReading] = {}
        uses: dict[str, CardUse] = {}
        silent: dict[int, tuple[str, HealthReading | None]] = {}
        for slot in range(count):
            answer = await self._read(slot)
            found = sanitize_card(answer.card or answer.left_out or LeftOutCard(index=slot, uuid="", reason=""), slot)
            if isinstance(found, Card):
                self._at[slot] = found
                cards.append(found)
                if answer.reading is not None:
                    readings[found.uuid] = answer.reading
                if answer.use is not None:
                    uses[found.uuid] = sanitize_use(answer.use)
            elif found.uuid:
                self._at.pop(slot, None)
                left_out.append(found)
            else:
                silent[slot] = found.reason, answer.reading
        said = {card.uuid for card in cards} | {card.uuid for card in left_out}
        if silent:
            cards += [card for card in self._listed if card.uuid not in said]
        for slot, (reason, reading) in silent.items():
            before = self._at.get(slot)
            if before is None:
                left_out.append(LeftOutCard(index=slot, uuid="", reason=reason))
            elif before.uuid in said:
                self._pauses.succeed((slot, self._operation))  # the pause was not for the card that is here now
            elif reading is not None:
                readings[before.uuid] = reading
        self._lost = {uuid for uuid, reading in readings.items() if reading.lost} | (self._lost - said)
        if count == 0:
            await self._start_over("no card")  # the next poll loads the library again: a driver may have been installed
        self._listed = tuple(sorted(cards, key=_by_index))
        return CardReport(
            cards=self._listed,
            left_out=tuple(sorted(left_out, key=_by_index)),
            driver=self._opened.driver,
            readings=readings,
            uses=uses,
            problem="; ".join(dict.fromkeys(reason for reason, _ in silent.values())),
        )

    async def are_linked(self, card_a: Card, card_b: Card) -> bool:
        """Whether two cards have a direct link, or one switch between them."""
        request = WorkerRequest(Operation.LINK, uuids=(card_a.uuid, card_b.uuid))
        return await self._ask(request, bool, self.settings.call_timeout_s)

    async def group_memory(self, card: Card, group: str) -> GroupMemory | None:
        """A control group's limit and use of a card; None if the driver counts nothing there."""
        request = WorkerRequest(Operation.GROUP_MEMORY, uuids=(card.uuid,), group=group)
        return (await self._ask_of(card.uuid, card.index, request, GroupAnswer)).memory

    async def limit_group(self, card: Card, group: str, hard_bytes: int | None) -> GroupMemory | None:
        """Set a control group's hard limit of a card, None for none; returns what the driver has after that."""
        request = WorkerRequest(Operation.LIMIT_GROUP, uuids=(card.uuid,), group=group, hard_bytes=hard_bytes)
        return (await self._ask_of(card.uuid, card.index, request, GroupAnswer)).memory

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
        return check_count(count)

    async def _read(self, slot: int) -> CardAnswer:
        """What there is to say of a slot; one whose call hangs or crashes has a card that is unhealthy."""
        reading = None
        request = WorkerRequest(self._operation, slot)
        index = self._at[slot].index if slot in self._at else slot
        try:
            return await self._ask_of(slot, index, request, CardAnswer)
        except LibraryNotOpenError as error:  # which says nothing about a card
            reason = str(error)
        except DeviceError as error:
            reason = str(error)
            reading = HealthReading(healthy=False, reason=reason, conclusive=True)
        return CardAnswer(left_out=LeftOutCard(index=slot, uuid="", reason=reason), reading=reading)

    async def _ask_of(self, place: Hashable, index: int, request: WorkerRequest, result_type: type[T]) -> T:
        """Ask about the card that has this slot or uuid; a lost worker pauses its calls."""
        key = (place, request.operation)
        if (pause_reason := self._pauses.blocked_by(key, self.clock())) is not None:
            raise DeviceError(pause_reason)
        try:
            result = await self._ask(request, result_type, self.settings.call_timeout_s)
        except WorkerLostError as error:
            reason = f"library call {error.call} on card {index} {error.end}"
            wait_s = self._pauses.fail(key, self.settings.card_pauses, self.clock(), reason, error.process)
            facts = fields(source=self.spec.kind, card=index, call=error.call, rest_s=wait_s, reason=error)
            logger.warning("card's calls pause after a library call %s", facts)
            raise DeviceError(reason) from error
        self._pauses.succeed(key)
        return result

    async def _ask(self, request: WorkerRequest, result_type: type[T], timeout_s: float) -> T:
        async with self._lock:
            worker = await self._running()
            try:
                return await worker.call(request, result_type, timeout_s)
            except BaseException as error:
                if isinstance(error, DeviceError) and not isinstance(error, WorkerLostError):
                    raise  # an answer
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
            raise LibraryNotOpenError(str(error)) from error  # not the failure of a card's call
        self._has_events = True
        self._worker = worker
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


def _by_index(card: Card | LeftOutCard) -> tuple[int, str]:
    return card.index, card.uuid
