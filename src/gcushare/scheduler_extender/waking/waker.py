"""Wake refused pods: when room appears that one of them would fit, write an annotation that makes kube-scheduler retry.

kube-scheduler retries a refused pod after an event that may have made room, and at the latest after five minutes. Its
watch may be ahead of ours, and it may get no event at all for a healthy card or a lifted cordon. So the replica that
serves remembers the refused pods. If room appears and the scheduler does not come by itself, one annotation on the pod
makes it come: of all writes, an annotation is the one that every version reacts to.

There is at most one write per pod and room. A pod that the scheduler asked about again starts over; a pod that it left
alone (another resource keeps it) waits until another node has room. ``refused_pods`` lists the states of a pod. What
only new replicas and schedulers up to 1.26 need is in ``unasked_pods`` and in the states PAUSED and UNREACHED.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gcushare.core.backoff import doubled_s
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.core.nodes import PodRef
from gcushare.kube.clock import Clock, SystemClock, rfc3339_micro
from gcushare.kube.write_rate import TokenBucket
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.waking.choosing import UnboundWakes, choose_pods
from gcushare.scheduler_extender.waking.refused_pods import (
    ATTEMPTED,
    GROUPED,
    TRANSITIONS,
    PodEvent,
    PodState,
    RefusedGroup,
    RefusedPod,
    RefusedPods,
)
from gcushare.scheduler_extender.waking.unasked_pods import Phase, UnaskedPods
from gcushare.wire.annotations import ROOM_FOUND

logger = logging.getLogger(__name__)

CHECK_S = 0.1
"""Between two checks while the ledger changes or something is due."""
IDLE_CHECK_S = 2.0
"""Between two checks otherwise. They find out whether this replica serves, and which pods wait."""
SETTLE_S = 0.2
"""How long room stays before a pod is woken: a scheduler that got the event asks within milliseconds."""
LONGEST_SETTLE_S = 1.0
"""The same while the scheduler keeps asking about such pods by itself."""
ANSWER_S = 2.0
"""How long the room is kept for a woken pod until the scheduler asks, and then until the pod is bound."""

WRITES_PER_S = 100.0
BURST_WRITES = 200
_WRITES_AT_ONCE = 8
_WRITE_S = 2.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_ATTEMPT_S = 60.0
"""How long an attempt may last before its write. Its room is free for others afterwards."""
_WARN_EVERY_S = 60.0
_MAX_ATTEMPTS = 64
"""Pods whose room is kept at the same time."""
_NODES_PER_TURN = 512
_CLEAN_S = 10.0


class WakeApi(Protocol):
    """Makes kube-scheduler try a pod again. Raises the errors of ``gcushare.kube.errors``."""

    async def patch_pod_annotations(self, pod: PodRef, annotations: Mapping[str, str], *, timeout_s: float) -> object:
        """Set annotations of exactly this pod; kube-scheduler tries it again if a value changes."""


@dataclass(slots=True)
class WakeCounters:
    """The outcomes for pods for which room was found, for metrics."""

    written: int = 0
    failed: int = 0
    unanswered: int = 0
    """Written, but the scheduler did not ask within ``ANSWER_S``: something other than cards keeps the pod."""


@dataclass(slots=True, eq=False)
class WakeAttempt:
    """A pod that is being woken, and the room that is kept for it.

    ``asked`` is that of its group; ``had_room``: the other nodes of the group that had room.
    """

    pod: RefusedPod
    node: str
    asked: frozenset[str] | None
    had_room: frozenset[str]
    until_s: float


class RoomWaker:
    """Wakes the refused pods of one vendor. The ``on_`` methods are called on the scheduler's path and only record.

    ``serves``: whether this replica answers the scheduler.
    """

    def __init__(
        self, state: VendorState, api: WakeApi, serves: Callable[[], bool], *, clock: Clock | None = None
    ) -> None:
        self._state = state
        self._api = api
        self._serves = serves
        self._clock = clock or SystemClock()
        self._bucket = TokenBucket(WRITES_PER_S, BURST_WRITES, self._clock)
        self._slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._changed = asyncio.Event()
        """Set when a check may find something: room appears only on nodes that changed in the ledger."""
        state.ledger.listen(lambda _node: self._changed.set())
        self._refused = RefusedPods(state.ledger.nodes)
        self._attempts: dict[str, WakeAttempt] = {}
        self._unasked = UnaskedPods()
        self._unbound = UnboundWakes()
        self._unreached_s = math.inf
        """When the last pod became UNREACHED; infinite if none is."""
        self._clean_at_s = self._warn_at_s = 0.0
        self.counters = WakeCounters()

    # Calls of the scheduler

    def on_refused(self, request: SchedulingRequest) -> None:
        """Record a pod that fits none of the nodes that the scheduler just asked about."""
        asked = self._state.asked.get(request.pod.uid)
        if asked is None:
            return  # Too many nodes to remember.
        self._on_asked(request.pod.uid)
        group = self._refused.group(request, asked)
        pod = self._refused.remember(request)
        self._advance(pod, PodEvent.REFUSED)
        pod.failures, pod.was_unreached = 0, False
        group.add(pod)
        group.on_refused(self._state.changes.position)

    def on_offered(self, request: SchedulingRequest) -> None:
        """Record that the scheduler was offered nodes for a pod, so it is at work on the pod."""
        uid = request.pod.uid
        self._on_asked(uid)
        pod = self._refused.pods.get(uid)
        if pod is None:
            return
        now = self._clock.monotonic()
        if pod.group is not None:
            pod.group.offered_s = now
        self._advance(pod, PodEvent.OFFERED)
        if (attempt := self._attempts.get(uid)) is not None:
            attempt.until_s = now + ANSWER_S

    def on_bind_failed(self, uid: str) -> None:
        """Record a pod whose binding failed: schedulers up to 1.26 retry it only after an event."""
        request = self._state.find_request(uid)
        if request is not None:
            self._on_asked(uid)
            self._pause(self._refused.remember(request), PodEvent.BIND_FAILED)

    def _on_asked(self, uid: str) -> None:
        if self._unasked.phase is Phase.STANDBY:
            self._changed.set()
        self._unasked.on_asked(uid, self._clock.monotonic(), is_woken=uid in self._attempts)

    # States

    def _advance(self, pod: RefusedPod, event: PodEvent) -> bool:
        """Move a pod to the state that follows; False if the event changes nothing in its state."""
        state = TRANSITIONS[event].get(pod.state)
        if state is None:
            return False
        pod.state = state
        if state not in GROUPED and pod.group is not None:
            pod.group.remove(pod)
        if state not in ATTEMPTED:
            self._attempts.pop(pod.uid, None)
        return True

    def _pause(self, pod: RefusedPod, event: PodEvent) -> None:
        """Let a pod wait for a moment, longer each time, if the event does that in its state."""
        if self._advance(pod, event) and pod.state is PodState.PAUSED:
            pause_s = doubled_s(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, pod.failures)
            pod.failures += 1
            pod.not_before_s = self._clock.monotonic() + pause_s

    def _forget(self, uid: str) -> None:
        self._attempts.pop(uid, None)
        self._refused.forget(uid)

    # Checks

    async def run(self) -> None:
        """Wake pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_when_idle(), name="check now and then")
            while True:
                await self._clock.sleep(CHECK_S)
                await self._changed.wait()
                self._changed.clear()
                if not self._serves():
                    self._state.nominations.released.clear()  # A replica that stands by follows nominations too.
                    if self._unasked.phase is not Phase.STANDBY:
                        self._unasked.stop()
                        self._refused = RefusedPods(self._state.ledger.nodes)
                        self._attempts.clear()
                    continue
                if self._unasked.phase is Phase.STANDBY:
                    self._unasked.start(self._clock.monotonic())
                await self._check()
                for attempt in self._choose():
                    tasks.create_task(self._write(attempt), name=f"wake {attempt.pod.request.pod}")
                if self._attempts or any(group.room for group in self._refused.groups.values()):
                    self._changed.set()  # Room has to settle, or an answer is due.

    async def _check_when_idle(self) -> None:
        while True:
            await self._clock.sleep(IDLE_CHECK_S)
            self._changed.set()

    async def _check(self) -> None:
        """Apply what became due, forget pods that are gone, and update the room of every group."""
        now = self._clock.monotonic()
        for uid in self._unasked.adopt_due(self._state.waiting, self._is_followed, now):
            if (request := self._state.find_request(uid)) is not None:
                pod = self._refused.remember(request)
                self._advance(pod, PodEvent.ADOPTED)
                self._refused.group(request, None).add(pod)
        for attempt in list(self._attempts.values()):
            self._check_attempt(attempt, now)
        if self._unasked.last_asked_s >= self._unreached_s:
            self._unreached_s = math.inf  # Pods woken while the scheduler was silent are each woken once more.
            for pod in [pod for pod in self._refused.pods.values() if pod.state is PodState.UNREACHED]:
                pod.was_unreached = True
                self._pause(pod, PodEvent.SCHEDULER_BACK)
        for pod in self._refused.find_resumed(now):
            self._advance(pod, PodEvent.PAUSE_OVER)
            group = self._refused.group(pod.request, self._state.asked.get(pod.uid))
            group.add(pod)
            group.position = -1
        if now >= self._clean_at_s:
            self._clean_at_s = now + _CLEAN_S
            self._unasked.drop_gone(self._state.waiting.keys())
            self._unbound.drop_old(now)
            for uid in [uid for uid in self._refused.pods if self._state.find_request(uid) is None]:
                self._forget(uid)
        await self._update_groups(now)

    def _is_followed(self, uid: str) -> bool:
        return (pod := self._refused.pods.get(uid)) is not None and pod.state is not PodState.OFFERED

    def _check_attempt(self, attempt: WakeAttempt, now_s: float) -> None:
        """End an attempt whose pod is bound or gone, or whose time is over."""
        pod = attempt.pod
        if self._refused.pods.get(pod.uid) is not pod:
            del self._attempts[pod.uid]  # It made room for others in memory.
        elif self._state.find_request(pod.uid) is None:
            self._forget(pod.uid)
            self._unbound.record(pod.namespace, now_s, is_bound=pod.uid in self._state.bound)
        elif now_s >= attempt.until_s:
            if self._state.ledger.assignment(pod.uid) is not None:
                self._advance(pod, PodEvent.BINDING)
            else:
                self._unbound.record(pod.namespace, now_s, is_bound=False)
                self._give_up(attempt)

    def _give_up(self, attempt: WakeAttempt) -> None:
        """Leave a pod alone that the scheduler does not come back for, until another node has room.

        If the scheduler was offered nodes and did not bind the pod, our answer may not have reached it: the pod pauses.
        """
        pod = attempt.pod
        if pod.state is PodState.ANSWERED:
            self._pause(pod, PodEvent.UNANSWERED)
            return
        self.counters.unanswered += 1
        is_silent = self._unasked.last_asked_s < attempt.until_s - ANSWER_S and not pod.was_unreached
        self._advance(pod, PodEvent.UNANSWERED_IN_SILENCE if is_silent else PodEvent.UNANSWERED)
        if is_silent:
            self._unreached_s = self._clock.monotonic()
        self._refused.group(pod.request, attempt.asked, attempt.had_room, self._state.changes.position).add(pod)

    async def _update_groups(self, now_s: float) -> None:
        refused, changes, turns = self._refused, self._state.changes, CooperativeYield(_NODES_PER_TURN)
        since: dict[tuple[int, int], set[str] | None] = {}
        refused.drop_empty_groups()
        self._state.nominations.announce_ended()
        released, self._state.nominations.released = self._state.nominations.released, set()
        for group in list(refused.groups.values()):
            group.released |= released
            span = (group.position, changes.position)
            if span[0] == span[1]:
                continue
            if span not in since:
                since[span] = changes.since(span[0]) if span[0] >= 0 else None
            await turns.after(1 + group.update_room(self._state.ledger.nodes, since[span], span[1], now_s))

    # Waking

    def _choose(self) -> list[WakeAttempt]:
        """Begin an attempt for each pod that would fit and for which the room has settled."""
        if len(self._attempts) >= _MAX_ATTEMPTS:
            return []
        now = self._clock.monotonic()

        def is_ready(pod: RefusedPod, group: RefusedGroup) -> bool:
            since_s = group.since_s or 0.0
            settled_s = min(group.offered_s + SETTLE_S, since_s + LONGEST_SETTLE_S)
            return now >= max(since_s + SETTLE_S, settled_s, self._unasked.not_before_s(pod.uid))

        attempts = [(each.pod, each.node) for each in self._attempts.values()]
        begun = []
        for pod, group, node in choose_pods(self._refused, self._state, attempts, is_ready, self._unbound.deferred):
            self._advance(pod, PodEvent.CHOSEN)
            had_room = frozenset(group.room | group.ignored)
            begun.append(WakeAttempt(pod, node, group.asked, had_room, now + _ATTEMPT_S))
            self._attempts[pod.uid] = begun[-1]
        return begun

    async def _write(self, attempt: WakeAttempt) -> None:
        pod, ref = attempt.pod, attempt.pod.request.pod
        async with self._slots:
            await self._bucket.take()
            if self._attempts.get(pod.uid) is not attempt:
                return  # The scheduler asked meanwhile.
            try:
                moment = rfc3339_micro(self._clock.now())
                await self._api.patch_pod_annotations(ref, {ROOM_FOUND: moment}, timeout_s=_WRITE_S)
            except (NotFoundError, ConflictError):
                self._forget(pod.uid)
                return
            except GcushareError as error:
                self.counters.failed += 1
                if (now := self._clock.monotonic()) >= self._warn_at_s:
                    self._warn_at_s = now + _WARN_EVERY_S
                    logger.warning(
                        "room found, but not noted on the pod: tried again later; it takes the right to patch "
                        "pods/status %s",
                        fields(pod=ref, node=attempt.node, reason=error),
                    )
                if self._attempts.get(pod.uid) is attempt:
                    self._pause(pod, PodEvent.WRITE_FAILED)
                return
        self.counters.written += 1
        logger.info("room found, scheduler is to try again %s", fields(pod=ref, uid=ref.uid, node=attempt.node))
        if self._attempts.get(pod.uid) is attempt:
            self._advance(pod, PodEvent.WRITTEN)
            attempt.until_s = self._clock.monotonic() + ANSWER_S
