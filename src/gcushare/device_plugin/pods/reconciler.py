"""Keeps the pod store true: what differs from the kubelet's record is corrected, first here and then on the pods.

One task asks the kubelet's record soon after each Allocate, at every pod's end, and once a minute; what the pods'
records must say then is written by a ``RecordWriter``.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from gcushare.core.errors import DeviceError, RetryableError
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.annotation_writer import RecordWriter, wait_and_clear
from gcushare.device_plugin.pods.kubelet_allocations import CHECKPOINT, KubeletAllocations
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.ports import PodPatcher
from gcushare.runtime.logs import fields

logger = logging.getLogger(__name__)

CHECK_DELAYS_S = (0.008, 0.01, 0.015, 0.025, 0.05, 0.1, 0.2, 0.5)
"""Waits between looks while an allocation is not shown yet: podresources shows it 6 to 25 ms after Allocate."""
MAX_LOOKS = 60
"""Looks in a row, half a second apart, for pods that podresources does not show; then every minute."""
PERIOD_S = 60.0
CHANGING_PERIOD_S = 5.0
"""Between looks while time alone changes something: the cards of pods that are gone are free once their containers
cannot run any more, and a holder that stays unknown has to be published."""
PATIENCE_S = 2.0
"""How long an allocation may stay unseen in the kubelet's record before it is ended."""


class KubeletRecordSource(Protocol):
    """Who reads the kubelet's record."""

    async def fetch(self) -> KubeletAllocations: ...

    async def fetch_checkpoint(self) -> KubeletAllocations: ...


class RunningPods(Protocol):
    """Who sees the machine's processes. It may block for a moment: it is called off the event loop."""

    def running_pods(self) -> frozenset[str] | None:
        """The uids of the pods that have processes here; None where that cannot be said."""


@dataclass(slots=True)
class CheckCounters:
    """How often the kubelet's record was looked at since the start."""

    checks: int = 0
    failed_checks: int = 0


class AllocationReconciler:
    """Owns the truth about who holds what; ``run_checks`` is its task, and its ``writer`` has another.

    ``on_read`` is called with what the kubelet shows after each look that succeeded.
    """

    def __init__(
        self,
        store: PodStore,
        source: KubeletRecordSource,
        patcher: PodPatcher,
        *,
        clock: Callable[[], float],
        wall_clock_ns: Callable[[], int],
        rng: random.Random,
        on_read: Callable[[KubeletAllocations], None],
        on_record_written: Callable[[RecordWrite], None],
        running: RunningPods | None = None,
    ) -> None:
        self._running = running
        self._wall_clock_ns = wall_clock_ns
        self._store = store
        self._source = source
        self._clock = clock
        self._check_soon = asyncio.Event()
        self._checking = asyncio.Lock()
        self._missing = 0
        self._hidden: frozenset[str] = frozenset()
        self._on_read = on_read
        self.writer = RecordWriter(
            store, patcher, clock=clock, wall_clock_ns=wall_clock_ns, rng=rng, on_written=on_record_written
        )
        self.problem = "the kubelet's record was not read yet"
        self.counters = CheckCounters()

    def note_allocation(self) -> None:
        """Have the kubelet's record read soon: something was allocated."""
        self.writer.note_allocation()
        self._check_soon.set()

    def check_soon(self) -> None:
        """Have the kubelet's record read soon: a pod came or ended, or the plugin was registered."""
        self._check_soon.set()

    def want_hidden_ids_of(self, pods: Collection[str]) -> None:
        """Have every look from now on bring all ids of these pods, by uid, of which podresources does not show all."""
        wanted = frozenset(pods)
        if wanted - self._hidden:
            self._check_soon.set()
        self._hidden = wanted

    async def run_checks(self) -> None:
        """Read the kubelet's record when it may have changed, and every minute."""
        looks = 0
        while True:
            await self.check()
            is_pending = self._store.pending_allocations > 0 or (self._missing > 0 and looks < MAX_LOOKS)
            is_changing = bool(self._store.gone.uids) or self._store.unrecorded.is_young(self._clock())
            calm_s = CHANGING_PERIOD_S if is_changing else PERIOD_S
            delay_s = CHECK_DELAYS_S[min(looks, len(CHECK_DELAYS_S) - 1)] if is_pending else calm_s
            looks = looks + 1 if is_pending else 0
            if await wait_and_clear(self._check_soon, delay_s):
                looks = 0
                await asyncio.sleep(CHECK_DELAYS_S[0])

    async def check(self) -> bool:
        """Read the kubelet's record once and bring the store in line; False where it could not be read.

        One look at a time: an older result must not come in after a newer one.
        """
        async with self._checking:
            self.counters.checks += 1
            try:
                record = await self._source.fetch()
            except RetryableError as error:
                self.counters.failed_checks += 1
                self._store.end_pending(self._clock() - PATIENCE_S, is_readable=False)
                await self._end_gone(())
                self._note(str(error))
            else:
                self._note("")
                await self._end_gone(() if record.source == CHECKPOINT else record.pods)
                known = frozenset(self._store.entries)
                await self._fill_in(record)
                self._store.on_kubelet_read(record, asked=known)
                self._store.end_pending(self._clock() - PATIENCE_S, is_readable=True)
                self._store.find_unrecorded(self._clock())
                self._on_read(record)
        self.writer.write_soon()
        return not self.problem

    async def _end_gone(self, shown: Collection[str]) -> None:
        running = None
        if self._store.gone.uids and self._running is not None:
            running = await asyncio.to_thread(self._running.running_pods)
        self._store.end_gone(shown, self._clock(), wall_s=self._wall_clock_ns() / 1e9, running=running)

    async def _fill_in(self, record: KubeletAllocations) -> None:
        """Ask the checkpoint about what podresources does not show: pods that have their cards, and more of others.

        Taking the former for pods without cards would offer a card that is in whole use, or turn held ids unhealthy, in
        the very moment in which the kubelet admits them again.
        """
        missing, hidden = self._store.missing_from(record.pods), self._hidden
        self._missing = len(missing)
        asked = frozenset((*missing, *self._store.partly_shown_in(record.pods)))
        if record.source != CHECKPOINT and (asked or hidden):
            try:
                checkpoint = await self._source.fetch_checkpoint()
            except DeviceError as error:
                pods = len(asked | hidden)
                logger.warning("the kubelet shows less than it gave out, and %s", fields(pods=pods, error=error))
            else:
                record.fill_in(checkpoint, sorted(asked))
                record.take_hidden(checkpoint, hidden)

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            if problem:
                logger.warning("the kubelet's record cannot be read %s", fields(error=problem))
            elif self.counters.failed_checks:
                logger.info("the kubelet's record can be read again")
            self.problem = problem
