"""Reads the kubelet's allocations and corrects the pod store by them; a ``RecordWriter`` then corrects the pods.

One task reads them soon after each Allocate, when a pod comes or ends, and once a minute.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from gcushare.core.errors import DeviceError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.device_plugin.pods.allocations import CHECKPOINT, KubeletAllocations
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.annotation_writer import RecordWriter, wait_and_clear
from gcushare.device_plugin.pods.store import PodStore
from gcushare.kube.client import KubeClient

logger = logging.getLogger(__name__)

CHECK_DELAYS_S = (0.008, 0.01, 0.015, 0.025, 0.05, 0.1, 0.2, 0.5)
"""Delays between reads while an allocation is not shown yet: podresources shows it 6 to 25 ms after Allocate."""
MAX_READS = 60
"""Reads in a row, half a second apart, for pods that podresources does not show; then every minute."""
PERIOD_S = 60.0
CHANGING_PERIOD_S = 5.0
"""Between reads while time alone changes something: the cards of deleted pods become free once their containers cannot
run any more, and a holder that stays unknown has to be published."""
PATIENCE_S = 2.0
"""An allocation that the kubelet does not show after this time is ended."""


class AllocationsSource(Protocol):
    """Reads the kubelet's allocations."""

    async def fetch(self) -> KubeletAllocations:
        """Read podresources, or the checkpoint if it does not answer.

        Raises:
            RetryableError: neither can be read.
        """
        ...

    async def fetch_checkpoint(self) -> KubeletAllocations:
        """Read the checkpoint.

        Raises:
            DeviceError: it cannot be read.
        """
        ...


@dataclass(eq=False)
class AllocationReconciler:
    """Keeps the pod store in line with the kubelet. ``run_checks`` is its task; its ``writer`` has another.

    ``on_read`` is called with the kubelet's allocations after each read that succeeded. ``running_pods`` returns the
    uids of the pods with processes on this machine, None if that is not known; it may block, so a thread calls it.
    """

    store: PodStore
    source: AllocationsSource
    client: KubeClient
    _: KW_ONLY
    clock: Callable[[], float]
    wall_clock_ns: Callable[[], int]
    rng: random.Random
    on_read: Callable[[KubeletAllocations], None]
    on_record_written: Callable[[RecordWrite], None]
    running_pods: Callable[[], frozenset[str] | None] | None = None

    def __post_init__(self) -> None:
        self._check_soon = asyncio.Event()
        self._checking = asyncio.Lock()
        self._missing = 0
        self._unread = ""
        """Why the checkpoint could not be read last time."""
        self.writer = RecordWriter(
            self.store,
            self.client,
            clock=self.clock,
            wall_clock_ns=self.wall_clock_ns,
            rng=self.rng,
            on_written=self.on_record_written,
        )
        self.problem = "the kubelet's allocations were not read yet"
        self.checks = self.failed_checks = 0

    def check_soon(self) -> None:
        """Have the kubelet read soon: something was allocated, a pod came or ended, or the plugin was registered."""
        self._check_soon.set()

    async def run_checks(self) -> None:
        """Read the kubelet when its allocations may have changed, and every minute."""
        reads = 0
        while True:
            await self.check()
            is_pending = self.store.pending_allocations > 0 or (self._missing > 0 and reads < MAX_READS)
            is_changing = bool(self.store.gone.uids) or self.store.unrecorded.is_young(self.clock())
            calm_s = CHANGING_PERIOD_S if is_changing else PERIOD_S
            delay_s = CHECK_DELAYS_S[min(reads, len(CHECK_DELAYS_S) - 1)] if is_pending else calm_s
            reads = reads + 1 if is_pending else 0
            if await wait_and_clear(self._check_soon, delay_s):
                reads = 0
                await asyncio.sleep(CHECK_DELAYS_S[0])

    async def check(self) -> bool:
        """Read the kubelet once and correct the store; False if it cannot be read.

        One read at a time: an older result must not arrive after a newer one.
        """
        async with self._checking:
            self.checks += 1
            try:
                allocations = await self.source.fetch()
            except RetryableError as error:
                self.failed_checks += 1
                self.store.end_pending(self.clock() - PATIENCE_S, is_readable=False)
                await self._end_gone(())
                self._update_problem(str(error))
            else:
                self._update_problem("")
                await self._end_gone(() if allocations.source == CHECKPOINT else allocations.pods)
                known = frozenset(self.store.entries)
                await self._complete(allocations)
                self.store.on_kubelet_read(allocations, asked=known)
                self.store.end_pending(self.clock() - PATIENCE_S, is_readable=True)
                self.store.find_unrecorded(self.clock())
                self.on_read(allocations)
        self.writer.write_soon()
        return not self.problem

    async def _end_gone(self, shown: Collection[str]) -> None:
        running = None
        if self.store.gone.uids and self.running_pods is not None:
            running = await asyncio.to_thread(self.running_pods)
        self.store.end_gone(shown, self.clock(), wall_s=self.wall_clock_ns() / 1e9, running=running)

    async def _complete(self, allocations: KubeletAllocations) -> None:
        """Add from the checkpoint what podresources does not show of pods that have cards, or had some as this started.

        If such a pod counted as one without cards, a card in whole use could be offered, or held ids turn unhealthy, in
        the moment in which the kubelet admits the pod again.
        """
        missing = self.store.missing_from(allocations.pods)
        self._missing = len(missing)
        if allocations.source == CHECKPOINT:
            self.store.close_unknown(allocations)
            return
        asked = {*missing, *self.store.hidden_in(allocations)}
        if asked or self.store.is_to_compare:
            try:
                checkpoint = await self.source.fetch_checkpoint()
            except DeviceError as error:
                level = logging.WARNING if asked and str(error) != self._unread else logging.DEBUG
                self._unread, facts = str(error) if asked else self._unread, fields(pods=len(asked), error=error)
                logger.log(level, "the kubelet shows less than it gave out, and %s", facts)
            else:
                self._unread = ""
                self.store.close_unknown(checkpoint)
                allocations.add_missing(checkpoint, sorted(asked))

    def _update_problem(self, problem: str) -> None:
        if problem != self.problem:
            if problem:
                logger.warning("the kubelet's allocations cannot be read %s", fields(error=problem))
            elif self.failed_checks:
                logger.info("the kubelet's allocations can be read again")
            self.problem = problem
