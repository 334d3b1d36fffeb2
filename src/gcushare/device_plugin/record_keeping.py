"""Keeps the records on this node's pods true: marks what was handed out, and corrects what differs from the kubelet's.

One task asks the kubelet's record soon after each Allocate, at every pod's end, and once a minute; another writes what
the pod book says is due. Writes are derived from the book each time, so nothing is lost while the API server is away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gcushare.core.cards import Inventory
from gcushare.core.errors import ConflictError, DeviceError, GcushareError, NotFoundError, RetryableError
from gcushare.core.nodes import PodRef
from gcushare.device_plugin.kubelet_record import CHECKPOINT, KubeletRecord
from gcushare.device_plugin.pod_book import PodBook, RecordWrite
from gcushare.runtime.logs import fields

logger = logging.getLogger(__name__)

CHECK_DELAYS_S = (0.008, 0.01, 0.015, 0.025, 0.05, 0.1, 0.2, 0.5)
"""Waits between looks while an allocation is not shown yet: podresources shows it 6 to 25 ms after Allocate."""
MAX_LOOKS = 60
"""Looks in a row, half a second apart, for pods that podresources does not show; then every minute."""
PERIOD_S = 60.0
PATIENCE_S = 2.0
"""How long an allocation may stay unseen in the kubelet's record before it is ended."""
CALM_S = 0.5
"""Without allocations for this long, exchanged cards of waiting pods are written: within a batch they change often."""
RESEND_S = 10.0
"""A record that was written and has not come back by the watch in this time is written again."""
_RETRY_DELAYS_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_WRITERS = 8


class KubeletRecordSource(Protocol):
    """Who reads the kubelet's record."""

    async def fetch(self) -> KubeletRecord: ...

    def read_checkpoint(self) -> KubeletRecord: ...


class RecordPatcher(Protocol):
    """Who writes on pods: exactly this uid, or a ConflictError."""

    async def patch_record(self, pod: PodRef, annotations: Mapping[str, str]) -> None: ...


class RecordObserver(Protocol):
    """Who is told, for events and metrics."""

    def record_written(self, write: RecordWrite) -> None: ...

    def kubelet_record_read(self, record: KubeletRecord) -> None: ...


@dataclass(slots=True)
class RecordCounters:
    """What happened since the start."""

    checks: int = 0
    failed_checks: int = 0
    writes: int = 0
    failed_writes: int = 0
    corrections: int = 0


class RecordKeeper:
    """Owns the truth about who holds what; ``run_checks`` and ``run_writes`` are its two tasks."""

    def __init__(
        self,
        book: PodBook,
        source: KubeletRecordSource,
        patcher: RecordPatcher,
        observer: RecordObserver,
        *,
        clock: Callable[[], float],
        wall_clock_ns: Callable[[], int],
    ) -> None:
        self._book = book
        self._source = source
        self._patcher = patcher
        self._observer = observer
        self._clock = clock
        self._wall_clock_ns = wall_clock_ns
        self._inventory: Inventory | None = None
        self._check_soon = asyncio.Event()
        self._write_soon = asyncio.Event()
        self._sent: dict[str, tuple[tuple[tuple[int, ...], bool], float]] = {}
        self._allocated_at_s = float("-inf")
        self._missing = 0
        self.problem = "the kubelet's record was not read yet"
        self.counters = RecordCounters()

    def set_inventory(self, inventory: Inventory) -> None:
        """Use these cards' uuids and sizes in records."""
        self._inventory = inventory
        self._write_soon.set()

    def note_allocation(self) -> None:
        """Have the kubelet's record read soon: something was allocated."""
        self._allocated_at_s = self._clock()
        self._check_soon.set()

    def check_soon(self) -> None:
        """Have the kubelet's record read soon: a pod came or ended, or the plugin was registered."""
        self._check_soon.set()

    def write_soon(self) -> None:
        """Have due records written now: a pod's record changed."""
        self._write_soon.set()

    async def run_checks(self) -> None:
        """Read the kubelet's record when it may have changed, and every minute."""
        looks = 0
        while True:
            await self.check()
            unsettled = self._book.open_guesses > 0 or (self._missing > 0 and looks < MAX_LOOKS)
            delay_s = CHECK_DELAYS_S[min(looks, len(CHECK_DELAYS_S) - 1)] if unsettled else PERIOD_S
            looks = looks + 1 if unsettled else 0
            if await _wait(self._check_soon, delay_s):
                looks = 0
                await asyncio.sleep(CHECK_DELAYS_S[0])

    async def check(self) -> bool:
        """Read the kubelet's record once and bring the book in line; False where it could not be read."""
        self.counters.checks += 1
        try:
            record = await self._source.fetch()
        except RetryableError as error:
            self.counters.failed_checks += 1
            self._book.end_guesses(self._clock() - PATIENCE_S, believe=True)
            self._note(str(error))
        else:
            self._note("")
            self._fill_in(record)
            self._book.reconcile(record.holdings, record.whole)
            self._book.end_guesses(self._clock() - PATIENCE_S, believe=False)
            self._observer.kubelet_record_read(record)
        self._write_soon.set()
        return not self.problem

    def _fill_in(self, record: KubeletRecord) -> None:
        """Ask the checkpoint about pods that podresources does not show, though they have their cards.

        Taking them for pods without cards would offer a card that is in whole use, or turn held ids unhealthy, in the
        very moment in which the kubelet admits them again.
        """
        missing = self._book.missing_from(record.holders)
        self._missing = len(missing)
        if missing and record.source != CHECKPOINT:
            try:
                record.fill_in(self._source.read_checkpoint(), missing)
            except DeviceError as error:
                logger.warning(
                    "the kubelet shows less than it gave out, and %s", fields(pods=len(missing), error=error)
                )

    async def run_writes(self) -> None:
        """Write due records; after a failure again, later and later, until the API server takes them."""
        failures = 0
        while True:
            is_done = await self.write_due()
            failures = 0 if is_done else failures + 1
            if failures:
                await asyncio.sleep(_RETRY_DELAYS_S[min(failures, len(_RETRY_DELAYS_S)) - 1])
            else:
                await _wait(self._write_soon, PERIOD_S if self._is_calm() else CALM_S)

    async def write_due(self) -> bool:
        """Write everything that is due now; False where something has to be tried again."""
        if self._inventory is None:
            return True
        uuids = {card.index: card.card.uuid for card in self._inventory.cards}
        units = {card.index: card.units for card in self._inventory.cards}
        writes = self._book.writes(uuids, units, self._wall_clock_ns())
        due = [write for write in writes if (write.assigned or self._is_calm()) and self._is_news(write)]
        self._sent = {uid: sent for uid, sent in self._sent.items() if uid in self._book.entries}
        gate = asyncio.Semaphore(_WRITERS)
        return all(await asyncio.gather(*(self._write(write, gate) for write in due)))

    async def _write(self, write: RecordWrite, gate: asyncio.Semaphore) -> bool:
        async with gate:
            self._book.note_written(write)
            try:
                await self._patcher.patch_record(write.pod, write.annotations)
            except (ConflictError, NotFoundError) as error:
                # Gone, or another pod of that name: the watch will say so, and the record dies with its pod.
                logger.info("pod is gone, its record is not written %s", fields(pod=write.pod, error=error))
                return True
            except GcushareError as error:
                self.counters.failed_writes += 1
                logger.warning("record not written; will retry %s", fields(pod=write.pod, error=error))
                return False
        self._sent[write.pod.uid] = ((write.cards, write.assigned), self._clock())
        self.counters.writes += 1
        self.counters.corrections += bool(write.corrected_from)
        _log_write(write)
        self._observer.record_written(write)
        return True

    def _is_news(self, write: RecordWrite) -> bool:
        sent, sent_at = self._sent.get(write.pod.uid, (((), False), 0.0))
        return sent != (write.cards, write.assigned) or self._clock() - sent_at > RESEND_S

    def _is_calm(self) -> bool:
        return self._clock() - self._allocated_at_s > CALM_S

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            if problem:
                logger.warning("the kubelet's record cannot be read %s", fields(error=problem))
            elif self.counters.failed_checks:
                logger.info("the kubelet's record can be read again")
            self.problem = problem


def _log_write(write: RecordWrite) -> None:
    facts = fields(pod=write.pod, uid=write.pod.uid, card=_names(write.cards))
    if write.corrected_from:
        logger.warning("record corrected from=%s %s", _names(write.corrected_from), facts)
    else:
        logger.info("%s %s", "placed and recorded" if write.placed_here else "marked assigned", facts)


def _names(cards: tuple[int, ...]) -> str:
    return ",".join(str(index) for index in cards)


async def _wait(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for the event and clear it; False where the time ran out first."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
