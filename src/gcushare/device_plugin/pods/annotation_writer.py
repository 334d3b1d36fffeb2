"""Writes records on this node's pods, each pod at its own pace.

A pod whose write fails is retried alone, with growing delays; other pods' records are written at once. What to write is
computed from the pod store each time, so nothing is lost while the API server is away.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from gcushare.core.assignments import PodRef
from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.cards import Inventory
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.core.wording import counted, index_text, some_names
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.store import PodStore
from gcushare.kube.client import KubeClient

logger = logging.getLogger(__name__)

POLL_S = 60.0
"""The store is searched for due writes this often even if no change was reported."""
RESEND_S = 10.0
"""A written record that the watch does not show in this time is written again."""
LEAST_INTERVAL_S = 1.0
"""Between two equal writes on one pod, if another program has changed its record."""
_REPORTED_LOSSES = 3
"""So often in a row another program changes a record soon after its write before that is a problem. From then on the
interval is doubled each time."""
_MOST_DOUBLINGS = 5
RETRY = BackoffPolicy(first_s=0.2, cap_s=30.0)
"""After a failure that passes: no answer, or a conflict."""
REFUSED = BackoffPolicy(first_s=20.0, cap_s=180.0)
"""After an answer that a retry alone does not change: rights may be granted and webhooks removed, without hurry.

The alert on failing writes needs more than three failures in a quarter of an hour.
"""
_REPORTED_FAILURES = 7
"""So many failures in a row, which take some nine seconds, are reported as a problem."""
_MAX_NAMES = 3
"""Pods named in one message."""
_WRITERS = 8


@dataclass(slots=True)
class _Attempt:
    """The last write on a pod: what it says, and when an equal one may follow."""

    pod: PodRef
    cards: tuple[int, ...]
    retries: Backoff
    refusals: Backoff
    sent_at_s: float = float("-inf")
    due_at_s: float = 0.0
    is_open: bool = True
    """Whether the API server has not answered yet."""
    is_echoed: bool = False
    """Whether the watch has shown the record as written; if it differs now, another program has changed it since."""
    is_refused: bool = False
    error: str = ""
    losses: int = 0
    """How often in a row another program has changed the record soon after it was written."""

    @property
    def interval_s(self) -> float:
        """Before an equal write may follow one that the watch has shown."""
        return float(LEAST_INTERVAL_S * 2 ** min(max(0, self.losses - _REPORTED_LOSSES), _MOST_DOUBLINGS))

    @property
    def is_reported(self) -> bool:
        """Whether its failures are a problem, not a hiccup."""
        return self.is_refused or self.retries.failures >= _REPORTED_FAILURES

    def says(self, cards: tuple[int, ...]) -> bool:
        return set(self.cards) == set(cards)


@dataclass(eq=False)
class RecordWriter:
    """Writes the records that the pod store says are due. ``run`` is its task; ``on_written`` is called for each."""

    store: PodStore
    client: KubeClient
    _: KW_ONLY
    clock: Callable[[], float]
    wall_clock_ns: Callable[[], int]
    rng: random.Random
    on_written: Callable[[RecordWrite], None]

    def __post_init__(self) -> None:
        self._inventory: Inventory | None = None
        self._soon = asyncio.Event()
        self._gate = asyncio.Semaphore(_WRITERS)
        self._attempts: dict[str, _Attempt] = {}
        self.writes = self.failed_writes = self.corrections = 0

    @property
    def problem(self) -> str:
        """Which pods' records cannot be written, or do not stay, and why; "" if only a few attempts failed."""
        attempts = sorted(self._attempts.values(), key=lambda each: (str(each.pod), each.pod.uid))
        failed = [each for each in attempts if each.is_reported]
        lost = [each for each in attempts if each.losses >= _REPORTED_LOSSES and not each.is_reported]
        found = []
        if failed:
            found.append(f"the records of {_pods(failed)} cannot be written: {failed[0].error}")
        if lost:
            found.append(
                f"another program removes or changes the records of {_pods(lost)} after each write, as a syncer of "
                "annotations may; their cards count by what the Node says of them"
            )
        return "; ".join(found)

    def set_inventory(self, inventory: Inventory) -> None:
        """Use these cards' uuids and sizes in records."""
        self._inventory = inventory
        self._soon.set()

    def pod_applied(self, uid: str) -> None:
        """Check whether the watch shows a pod's record as it was last written."""
        entry, attempt = self.store.entries.get(uid), self._attempts.get(uid)
        if entry is None or attempt is None or entry.record is None:
            return
        if entry.record.assigned and attempt.says(entry.record.card_indexes):
            attempt.is_echoed = True
            if not attempt.is_open:
                attempt.due_at_s = attempt.sent_at_s + attempt.interval_s

    def write_soon(self) -> None:
        """Have due records written now: a pod or its record changed."""
        self._soon.set()

    async def run(self) -> None:
        """Write due records until cancelled."""
        async with asyncio.TaskGroup() as writers:
            while True:
                pause_s = self.start_due(writers)
                await wait_and_clear(self._soon, pause_s)

    def start_due(self, writers: asyncio.TaskGroup) -> float:
        """Start all writes that are due; returns in how many seconds the next one will be due."""
        if self._inventory is None:
            return POLL_S
        uuids = {card.index: card.uuid for card in self._inventory.cards}
        writes = self.store.writes(uuids, self._inventory.units_by_card, self.wall_clock_ns())
        due, now_s = {write.pod.uid for write in writes}, self.clock()
        # Attempts that no later write depends on are dropped; a fresh one delays the next equal write, so it stays.
        self._attempts = {
            uid: attempt
            for uid, attempt in self._attempts.items()
            if attempt.is_open
            or uid in due
            or (uid in self.store.entries and not attempt.error and attempt.due_at_s > now_s)
        }
        next_s = now_s + POLL_S
        for write in writes:
            due_at_s = self._due_at_s(write)
            if due_at_s <= now_s:
                self._start(write, writers)
            else:
                next_s = min(next_s, due_at_s)
        return next_s - now_s

    def _due_at_s(self, write: RecordWrite) -> float:
        """When it may be written; never while another write on the pod is open, whose end wakes ``run``."""
        attempt = self._attempts.get(write.pod.uid)
        if attempt is not None and attempt.is_open:
            return float("inf")
        return attempt.due_at_s if attempt is not None and attempt.says(write.cards) else float("-inf")

    def _start(self, write: RecordWrite, writers: asyncio.TaskGroup) -> None:
        attempt = self._attempts.get(write.pod.uid)
        if attempt is not None and attempt.says(write.cards):
            attempt.losses += attempt.is_echoed
            attempt.is_open, attempt.is_echoed = True, False
        else:
            retries, refusals = Backoff(RETRY, self.rng), Backoff(REFUSED, self.rng)
            attempt = _Attempt(write.pod, write.cards, retries, refusals)
            self._attempts[write.pod.uid] = attempt
        writers.create_task(self._write(write, attempt), name=f"record of {write.pod}")

    async def _write(self, write: RecordWrite, attempt: _Attempt) -> None:
        async with self._gate:
            attempt.sent_at_s = self.clock()
            self.store.on_record_written(write)
            try:
                await self.client.patch_pod_annotations(write.pod, write.annotations)
            except (ConflictError, NotFoundError) as error:
                # Deleted, or another pod of that name: the watch will show it, and the record goes with its pod.
                logger.info("pod is gone, its record is not written %s", fields(pod=write.pod, error=error))
                self._wait_after(attempt, error, attempt.retries)
            except GcushareError as error:
                self._on_failure(attempt, error)
            else:
                self._on_success(attempt, write)
        self._soon.set()

    def _on_success(self, attempt: _Attempt, write: RecordWrite) -> None:
        attempt.is_open, attempt.is_refused, attempt.error = False, False, ""
        attempt.retries.reset()
        attempt.refusals.reset()
        attempt.due_at_s = attempt.sent_at_s + (attempt.interval_s if attempt.is_echoed else RESEND_S)
        self.writes += 1
        self.corrections += bool(write.corrected_from or write.repaired or write.exchanged)
        _log_write(write)
        self.on_written(write)

    def _on_failure(self, attempt: _Attempt, error: GcushareError) -> None:
        """Decide when the write is tried again; each cause is logged as a warning once."""
        self.failed_writes += 1
        level = logging.DEBUG if attempt.error == str(error) else logging.WARNING
        attempt.is_refused = not isinstance(error, RetryableError)
        delay_s = self._wait_after(attempt, error, attempt.refusals if attempt.is_refused else attempt.retries)
        logger.log(
            level, "record not written; will retry %s", fields(pod=attempt.pod, delay_s=round(delay_s, 1), error=error)
        )

    def _wait_after(self, attempt: _Attempt, error: GcushareError, backoff: Backoff) -> float:
        """Delay the next write on the pod; returns by how many seconds."""
        delay_s = backoff.next_delay_s(error)
        attempt.is_open, attempt.error = False, str(error)
        attempt.due_at_s = self.clock() + delay_s
        return delay_s


def _pods(attempts: Sequence[_Attempt]) -> str:
    names = some_names([str(each.pod) for each in attempts], _MAX_NAMES)
    return f"{counted(len(attempts), 'pod')} ({names})"


def _log_write(write: RecordWrite) -> None:
    facts = fields(pod=write.pod, uid=write.pod.uid, card=index_text(write.cards))
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("record written %s", fields(pod=write.pod, new_annotations=json.dumps(dict(write.annotations))))
    if write.repaired:
        logger.warning("damaged record written again %s %s", fields(reason=write.repaired), facts)
    elif write.exchanged:
        logger.warning("uuid of a pod's card was recorded again %s %s", fields(before=dict(write.exchanged)), facts)
    elif write.corrected_from:
        logger.warning("record corrected %s %s", fields(**{"from": index_text(write.corrected_from)}), facts)
    else:
        logger.info("%s %s", "placed and recorded" if write.placed_here else "marked assigned", facts)


async def wait_and_clear(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for the event and clear it; False if the time runs out before."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
