"""A vendor's library as a source that neither hangs nor crashes its caller.

The library lives in a worker process. A call that hangs or crashes costs the worker and is blamed on the card it was
about: that card's calls rest for a growing while, the others are asked again through a new worker at once.

A library numbers its cards each time that it is opened. So a slot is first asked which card it holds, and a card
that is elsewhere now is asked nothing before the next list.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from gcushare.cards.errors import (
    CardMovedError,
    LibraryCallError,
    LibraryMissingError,
    LibraryNotOpenError,
    WorkerLostError,
)
from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.plausible import believed_card, believed_count, believed_left_out, believed_use
from gcushare.cards.ports import CardReport, HealthEvent, HealthReading, LinkLevel
from gcushare.cards.worker.backoffs import Backoffs
from gcushare.cards.worker.frames import Described, Linked, Noticed, Opened, Operation, Request
from gcushare.cards.worker.process import WorkerProcess
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_REST_S = 300.0
"""Where the doubling of a card's rest ends: one that came back is seen after this at the latest."""
_LONGEST_RESTART_S = 30.0
"""Where that of a library's ends."""
_START = "start"
_EVENTS = "events"
_REOPEN = "reopen"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationSettings:
    """How long a library may take and how long what failed rests; all in seconds."""

    open_timeout_s: float = 60.0
    """Initialising: a driver without persistence wakes every card first, seconds per card."""
    call_timeout_s: float = 5.0
    """Any other call: they read memory or a register, a second would be long already."""
    first_rest_s: float = 10.0
    """How long a card rests after the first call that hung or crashed; doubles with each further one."""
    first_restart_s: float = 1.0
    """How long a library that does not open at all rests; doubles with each further failure."""


class IsolatedSource:
    """The ``CardSource`` of a vendor's library in its own process."""

    def __init__(
        self,
        spec: LibrarySpec,
        settings: IsolationSettings = IsolationSettings(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._clock = clock
        self._lock = asyncio.Lock()  # a worker answers one question at a time
        self._worker: WorkerProcess | None = None
        self._opened = Opened(library="", driver="")  # by the last worker
        self._known: dict[int, Card] = {}  # by slot, as of the last list
        self._numbered: dict[int, str] = {}  # uuids by slot, as the running worker numbers them
        self._last_count = 0
        self._lost: set[str] = set()  # uuids of cards for which the library is opened again
        self._resting: Backoffs[tuple[int, Operation]] = Backoffs(settings.first_rest_s, _LONGEST_REST_S)
        self._waits: Backoffs[str] = Backoffs(settings.first_restart_s, _LONGEST_RESTART_S)
        self._reopens: Backoffs[str] = Backoffs(settings.first_rest_s, _LONGEST_REST_S)
        self._has_events = True
        self._closed = False

    @property
    def name(self) -> str:
        """The library's word with the file that was loaded."""
        library = self._opened.library or self._spec.library
        return f"{self._spec.kind} ({library})" if library else self._spec.kind

    @property
    def worker_pid(self) -> int | None:
        """The process that holds the library now; None while there is none."""
        return self._worker.pid if self._worker is not None else None

    async def list_cards(self) -> CardReport:
        """List the cards; one that cannot be described now stays as it was, or is left out with the reason.

        Raises:
            LibraryNotOpenError: the library is missing or does not open.
            DeviceError: it does not answer how many cards there are.
        """
        await self._reopen_for_lost()
        count = await self._count()
        known: dict[int, Card] = {}
        remembered: set[int] = set()
        left_out: list[LeftOutCard] = []
        for slot in range(count):
            described = await self._describe(slot)
            if isinstance(described, str) and slot in self._known:
                known[slot] = self._known[slot]
                remembered.add(slot)
            elif isinstance(described, str):
                left_out.append(LeftOutCard(index=slot, uuid="", reason=described))
            elif described.card is not None:
                known[slot] = described.card
            elif described.left_out is not None:
                left_out.append(described.left_out)
        self._known = _without_ghosts(known, remembered)
        for slot in known.keys() - self._known.keys():
            self._forget_rest(slot)  # the card that rests is elsewhere now: whichever is here has done nothing
        cards = sorted(self._known.values(), key=lambda card: (card.index, card.uuid))
        left_out.sort(key=lambda card: (card.index, card.uuid))
        if count == 0:
            await self._start_over("no card")  # the next look loads a library that a new driver may have brought
        return CardReport(cards=tuple(cards), left_out=tuple(left_out), driver=self._opened.driver)

    async def health(self, card: Card) -> HealthReading:
        """Look at one card; a call that hangs or crashes is this card's sickness.

        Raises:
            LibraryNotOpenError: the library cannot be opened again, which says nothing of this card.
            CardMovedError: it was, and the card is elsewhere now.
        """
        slot = self._slot(card)
        if slot is None:
            return HealthReading(healthy=False, reason="the library no longer lists the card", lost=True)
        resting_for = self._resting_for(slot)
        if resting_for is not None:
            return HealthReading(healthy=False, reason=resting_for, conclusive=True)
        try:
            reading = await self._ask_card(Request(Operation.HEALTH, slot), HealthReading, card)
        except WorkerLostError as error:
            return HealthReading(healthy=False, reason=self._blame(error, slot), conclusive=True)
        except LibraryCallError as error:
            is_lost = error.failure.is_lost
            reading = HealthReading(healthy=False, reason=str(error), conclusive=is_lost, lost=is_lost)
        if reading.lost and self._reopens.blocked_by(card.uuid, self._clock()) is None:
            self._lost.add(card.uuid)  # not now: the cards that this look has yet to ask would be elsewhere
        elif reading.healthy:
            self._reopens.succeed(card.uuid)
        return reading

    async def use(self, card: Card) -> CardUse:
        """Read what a card is doing, within ``plausible``'s bounds.

        Raises:
            DeviceError: the card is not listed, rests, or the library did not answer.
        """
        slot = self._slot(card)
        if slot is None:
            raise DeviceError(f"card {card.index} ({card.uuid}) is not listed by {self.name}")
        resting_for = self._resting_for(slot)
        if resting_for is not None:
            raise DeviceError(resting_for)
        return believed_use(await self._ask_card(Request(Operation.USE, slot), CardUse, card))

    async def link_level(self, card_a: Card, card_b: Card) -> LinkLevel | None:
        """The nearest connection of two cards; None where one is not listed or the machine does not say."""
        slots = (self._slot(card_a), self._slot(card_b))
        if slots[0] is None or slots[1] is None:
            return None
        resting_for = self._resting.blocked_by((slots[0], Operation.LINK), self._clock())
        if resting_for is not None:
            raise DeviceError(resting_for)
        linked = await self._ask_card(Request(Operation.LINK, slots[0], slots[1]), Linked, card_a, card_b)
        return linked.level

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """Wait ``timeout_s`` seconds for an event; also where the library has none or rests."""
        now_s = self._clock()
        can_wait = self._worker is not None and self._has_events
        if can_wait and self._waits.blocked_by(_EVENTS, now_s) is None:
            try:
                noticed = await self._ask(
                    Request(Operation.EVENT, timeout_s=timeout_s), Noticed, timeout_s + self._settings.call_timeout_s
                )
            except DeviceError as error:
                self._note_event_failure(error)
            else:
                self._waits.succeed(_EVENTS)
                if noticed.event is not None:
                    return noticed.event
        # also after a library that answered at once that there is no event: it is not asked in a tight loop
        await asyncio.sleep(max(0.0, timeout_s - (self._clock() - now_s)))
        return None

    async def close(self) -> None:
        """End the worker for good: later calls raise ``LibraryNotOpenError``."""
        self._closed = True
        await self._stop()

    async def _count(self) -> int:
        try:
            count = await self._ask(Request(Operation.COUNT), int, self._settings.call_timeout_s)
        except LibraryCallError as error:
            await self._start_over(str(error))  # the library as a whole is in trouble: initialise it again
            raise
        except WorkerLostError as error:
            self._waits.fail(_START, self._clock(), str(error), error.process)
            raise
        self._waits.succeed(_START)
        if count != self._last_count:
            self._numbered.clear()  # the cards after one that came or went are elsewhere
        self._last_count = count
        return believed_count(count)

    async def _describe(self, slot: int) -> Described | str:
        """Look at one position; the reason where it does not answer now."""
        reason = self._resting_for(slot)
        if reason is not None:
            return reason
        try:
            described = _believed(await self._ask_card(Request(Operation.DESCRIBE, slot), Described), slot)
        except LibraryCallError as error:
            return str(error)
        except WorkerLostError as error:
            return self._blame(error, slot)
        self._numbered[slot] = _uuid(described)
        return described

    async def _ask_card(self, request: Request, result_type: type[T], *cards: Card) -> T:
        """Ask about the cards that the request's slots held at the last list; one that costs the worker rests."""
        slot = request.slot
        try:
            result = await self._ask(request, result_type, self._settings.call_timeout_s, cards)
        except WorkerLostError as error:
            key, reason = (slot, request.operation), self._blame(error, slot)
            wait_s = self._resting.fail(key, self._clock(), reason, error.process)
            card = self._index(slot)
            facts = fields(source=self._spec.kind, card=card, call=error.call, rest_s=wait_s, reason=error)
            logger.warning("card rests after a library call %s", facts)
            raise
        self._resting.succeed((slot, request.operation))
        return result

    async def _ask(self, request: Request, result_type: type[T], timeout_s: float, cards: Sequence[Card] = ()) -> T:
        async with self._lock:
            worker = await self._running()
            try:
                for slot, card in zip((request.slot, request.other_slot), cards, strict=False):
                    if self._numbered.get(slot) != card.uuid:
                        await self._check_place(worker, slot, card)
                return await worker.call(request, result_type, timeout_s)
            except (LibraryCallError, CardMovedError):
                raise
            except BaseException as error:
                self._worker = None
                await worker.close()
                if isinstance(error, WorkerLostError):
                    error.process = worker
                raise

    async def _check_place(self, worker: WorkerProcess, slot: int, card: Card) -> None:
        """Check that a slot still holds a card.

        Raises:
            CardMovedError: it holds another.
        """
        request = Request(Operation.DESCRIBE, slot)
        described = await worker.call(request, Described, self._settings.call_timeout_s)
        self._numbered[slot] = _uuid(_believed(described, slot))
        if self._numbered[slot] != card.uuid:
            raise CardMovedError(card.index, card.uuid)

    async def _running(self) -> WorkerProcess:
        """The worker, started when there is none.

        Raises:
            LibraryNotOpenError: the library does not open, or did not a moment ago; or this source is closed.
        """
        if self._closed:
            raise LibraryNotOpenError(f"source {self._spec.kind} is closed")
        if self._worker is not None:
            return self._worker
        resting_for = self._waits.blocked_by(_START, self._clock())
        if resting_for is not None:
            raise LibraryNotOpenError(resting_for)
        worker = None
        try:
            worker = WorkerProcess(self._spec)
            self._opened = await worker.open(self._settings.open_timeout_s)
        except DeviceError as error:
            self._waits.fail(_START, self._clock(), str(error), worker)
            if isinstance(error, LibraryMissingError):
                raise
            raise LibraryNotOpenError(str(error)) from error  # else it would pass for the failure of a card's call
        self._has_events = True
        self._worker, self._numbered = worker, {}
        logger.info("library opened %s", fields(source=self.name, driver=self._opened.driver, pid=worker.pid))
        return worker

    async def _stop(self) -> WorkerProcess | None:
        """End the worker; returns it, as it may be stuck in the library's last call."""
        async with self._lock:
            worker, self._worker = self._worker, None
            if worker is not None:
                await worker.close()
            return worker

    async def _start_over(self, reason: str) -> None:
        """End the worker so that the next look opens the library again, unless it does not end."""
        worker = await self._stop()
        if worker is not None and worker.is_running:
            self._waits.fail(_START, self._clock(), reason, worker)

    async def _reopen_for_lost(self) -> None:
        """Open the library again for lost cards: most see one that came back only after they were initialised."""
        if self._lost:
            lost, self._lost = self._lost, set()
            worker = await self._stop()
            for uuid in lost:
                self._reopens.fail(uuid, self._clock(), _REOPEN, worker)

    def _note_event_failure(self, error: DeviceError) -> None:
        if isinstance(error, LibraryCallError) and error.failure.is_unsupported:
            self._has_events = False
            logger.info("library has no events, cards are polled %s", fields(source=self.name))
            return
        process = error.process if isinstance(error, WorkerLostError) else None
        wait_s = self._waits.fail(_EVENTS, self._clock(), str(error), process)
        facts = fields(source=self._spec.kind, rest_s=wait_s, reason=error)
        logger.warning("waiting for events failed %s", facts)

    def _slot(self, card: Card) -> int | None:
        return next((slot for slot, known in self._known.items() if known.uuid == card.uuid), None)

    def _index(self, slot: int) -> int:
        known = self._known.get(slot)
        return known.index if known is not None else slot

    def _resting_for(self, slot: int) -> str | None:
        """Why a slot's calls rest; None when they do not."""
        now_s = self._clock()
        relevant = (operation for operation in Operation if operation is not Operation.LINK)  # no sign of its health
        reasons = (self._resting.blocked_by((slot, operation), now_s) for operation in relevant)
        return next((reason for reason in reasons if reason is not None), None)

    def _forget_rest(self, slot: int) -> None:
        for operation in Operation:
            self._resting.succeed((slot, operation))

    def _blame(self, error: WorkerLostError, slot: int) -> str:
        return f"library call {error.call} on card {self._index(slot)} {error.end}"


def _believed(described: Described, slot: int) -> Described:
    if described.card is not None:
        found = believed_card(described.card, slot)
        return Described(card=found) if isinstance(found, Card) else Described(left_out=found)
    return Described(left_out=described.left_out and believed_left_out(described.left_out, slot))


def _uuid(described: Described) -> str:
    found = described.card or described.left_out
    return found.uuid if found is not None else ""


def _without_ghosts(known: dict[int, Card], remembered: Set[int]) -> dict[int, Card]:
    """Drop a card that was only remembered when another slot shows it: the library has renumbered its cards."""
    seen = {card.uuid for slot, card in known.items() if slot not in remembered}
    return {slot: card for slot, card in known.items() if slot not in remembered or card.uuid not in seen}
