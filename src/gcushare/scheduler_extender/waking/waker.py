"""Wake refused pods: when room appears that one of them would fit, write an annotation that makes kube-scheduler retry.

kube-scheduler retries a refused pod after an event that may have made room, and at the latest after five minutes. Its
watch may be ahead of ours, and it may get no event at all for a healthy card or a lifted cordon. So the replica that
serves remembers the refused pods. If there is room for 0.2 s and the scheduler does not come by itself, one annotation
on the pod makes it come: of all writes, an annotation is the one that every version reacts to.

There is at most one write per pod and room. A pod that the scheduler asked about again starts over; a pod that it left
alone (another resource keeps it) waits until another node has room. Pods whose call failed need nothing: from 1.27 on
the scheduler retries them by itself. The memory of the replica that served before is gone, so a pod that waited then
counts as refused unless the scheduler asks about it within 20 s.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice

from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.core.preemption.kept_room import compute_room_left, fits_after_nominees
from gcushare.core.requests import CardRequest
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, rfc3339_micro
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.waking.refused_pods import RefusedGroup, RefusedPod, RefusedPods
from gcushare.wire.annotations import ROOM_FOUND

logger = logging.getLogger(__name__)

CHECK_S = 0.1
"""Between two checks while the ledger changes or something is due."""
IDLE_CHECK_S = 2.0
"""Between two checks otherwise. They find out whether this replica serves, and which nominees' time is over."""
SETTLE_S = 0.2
"""How long room stays before a pod is woken: a scheduler that got the event asks within milliseconds."""
ANSWER_S = 2.0
"""How long the room is kept for a woken pod until the scheduler asks, and then until the pod is bound."""
RETRY_S = 10.0
"""Until a pod is tried again whose annotation could not be written."""
LEFT_ALONE_S = 20.0
"""How long pods that waited when this replica began to serve are left to kube-scheduler: twice its longest backoff."""

MOST_PER_CHECK = 10
"""So at most 100 writes a second."""
MAX_ATTEMPTS = 64
"""Pods whose room is kept at the same time."""
_WRITE_S = 2.0
_WARN_EVERY_S = 60.0
_MAX_FULL_GROUPS = 64
"""Groups per check whose room is all kept for woken pods."""
_NODES_PER_POD = 64
_NODES_PER_TURN = 512


@dataclass(slots=True, eq=False)
class WakeAttempt:
    """A pod that is being woken, and the node whose room is kept for it. ``is_asked``: whether the scheduler came."""

    request: SchedulingRequest
    node: str
    until_s: float
    is_asked: bool = False


class RoomWaker:
    """Wakes the refused pods of one vendor. The ``on_`` methods are called on the scheduler's path and only record.

    ``serves``: whether this replica answers the scheduler.
    """

    def __init__(self, state: VendorState, client: KubeClient, serves: Callable[[], bool], *, clock: Clock) -> None:
        self._state = state
        self._client = client
        self._serves = serves
        self._clock = clock
        self._changed = asyncio.Event()
        """Set when a check may find something: room appears only on nodes that changed in the ledger."""
        state.ledger.listen(lambda _node: self._changed.set())
        self._was_serving = False
        self._warn_at_s = 0.0
        self.refused = RefusedPods()
        self.attempts: dict[str, WakeAttempt] = {}
        self._unbound: set[str] = set()
        """Namespaces whose last woken pod was not bound: they come last, because others waited for that room."""
        self.counters: Counter[str] = Counter()
        """Pods for which room was found, for metrics: written; failed; unanswered, because something other than cards
        keeps the pod."""

    def on_refused(self, request: SchedulingRequest) -> None:
        """Record a pod that fits none of the nodes that the scheduler just asked about."""
        self.attempts.pop(request.pod.uid, None)
        self.refused.add(request, self._state.refused_on.get(request.pod.uid), self._state.changes.position)

    def on_offered(self, request: SchedulingRequest) -> None:
        """Record that the scheduler was offered nodes for a pod, so it is at work on the pod."""
        self.refused.forget(request.pod.uid)
        if (attempt := self.attempts.get(request.pod.uid)) is not None:
            attempt.is_asked, attempt.until_s = True, self._clock.monotonic() + ANSWER_S

    def on_put_off(self, request: SchedulingRequest) -> None:
        """Record a pod that was refused, and fits now on a node that the scheduler may not have asked about."""
        self.refused.add(request, None, -1)  # Before the log: any node counts, and any change.
        self._changed.set()

    async def run(self) -> None:
        """Wake pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_when_idle(), name="check now and then")
            while True:
                await self._clock.sleep(CHECK_S)
                await self._changed.wait()
                self._changed.clear()
                was_serving, self._was_serving = self._was_serving, self._serves()
                if not self._was_serving:
                    self.refused = RefusedPods()
                    self.attempts.clear()
                    continue
                if not was_serving:
                    self._inherit()
                self._end_attempts()
                await self._update_groups()
                await asyncio.gather(*map(self._write, self._choose()))
                if self.attempts or any(group.room for group in self.refused.groups.values()):
                    self._changed.set()  # Room has to settle, or an answer is due.

    async def _check_when_idle(self) -> None:
        while True:
            await self._clock.sleep(IDLE_CHECK_S)
            for uid in [uid for uid in self.refused.pods if self._state.find_request(uid) is None]:
                self.refused.forget(uid)
            self._changed.set()

    def _inherit(self) -> None:
        """Count pods as refused that the replica before this one may have refused, unless the scheduler asks soon."""
        for uid in self._state.waiting:
            request = self._state.find_request(uid)
            if request is not None and not request.gates and uid not in self.refused.pods:
                # Before the log: any node counts, and any change.
                self.refused.add(request, None, -1, self._clock.monotonic() + LEFT_ALONE_S)

    def _end_attempts(self) -> None:
        """End the attempts whose pod is bound or gone, or whose time is over."""
        now = self._clock.monotonic()
        for uid, attempt in list(self.attempts.items()):
            is_gone = self._state.find_request(uid) is None
            if not is_gone and now < attempt.until_s:
                continue
            del self.attempts[uid]
            if self._state.ledger.assignment(uid) is not None:
                self._unbound.discard(attempt.request.pod.namespace)
            else:
                self._unbound.add(attempt.request.pod.namespace)
                self.counters["unanswered"] += not (attempt.is_asked or is_gone)

    async def _update_groups(self) -> None:
        """Update the room of every group."""
        now, changes, nodes = self._clock.monotonic(), self._state.changes, self._state.ledger.nodes
        self._state.nominations.announce_ended()
        end, turns, changed = changes.position, CooperativeYield(_NODES_PER_TURN), dict[int, list[str]]()
        for group in list(self.refused.groups.values()):
            start = group.position
            if start == end:
                continue
            if start not in changed:
                names = changes.since(start)
                changed[start] = sorted(nodes if names is None else names)
            group.update_room(nodes, changed[start], now)
            group.position = end
            await turns.after(1 + len(changed[start]))

    def _choose(self) -> list[WakeAttempt]:
        """Begin an attempt for each pod that would fit in addition to those before it, where the room has settled."""
        now, begun, full = self._clock.monotonic(), list[WakeAttempt](), set[RefusedGroup]()
        most = min(MOST_PER_CHECK, MAX_ATTEMPTS - len(self.attempts))
        kept = defaultdict[str, list[CardRequest]](list)
        for uid, attempt in self.attempts.items():
            if self._state.ledger.assignment(uid) is None:
                kept[attempt.node].append(attempt.request.cards)
        for pod in sorted(self._find_able(most, now), key=self._rank):
            if len(begun) >= most or len(full) >= _MAX_FULL_GROUPS:
                break
            if pod.group in full:
                continue
            if (node := self._find_place(pod, kept, now)) is None:
                full.add(pod.group)
                continue
            kept[node].append(pod.request.cards)
            pod.woken_s = now
            begun.append(WakeAttempt(pod.request, node, now + ANSWER_S))
        self.attempts |= {attempt.request.pod.uid: attempt for attempt in begun}
        return begun

    def _rank(self, pod: RefusedPod) -> tuple[bool, tuple[int, str, int]]:
        return pod.request.pod.namespace in self._unbound, pod.order

    def _find_able(self, most: int, now: float) -> Iterator[RefusedPod]:
        """The pods that a node has room for, the first ``most`` of each group."""
        for group in self.refused.groups.values():
            newest_s = max((since_s for since_s in group.room.values() if since_s <= now - SETTLE_S), default=-math.inf)
            able = [
                pod
                for uid, pod in group.pods.items()
                if pod.woken_s < newest_s
                and pod.not_before_s <= now
                and uid not in self.attempts
                and self._state.find_request(uid) is not None
            ]
            yield from nsmallest(most, able, self._rank)

    def _find_place(self, pod: RefusedPod, kept: dict[str, list[CardRequest]], now: float) -> str | None:
        """A node that has room for a pod next to the woken ones; None if there is none."""
        request = pod.request.cards
        for name in islice(pod.group.find_room(pod, now - SETTLE_S), _NODES_PER_POD):
            node = self._state.ledger.nodes.get(name)
            if node is None or not node.known or not node.fits(request):
                continue
            if name not in kept:
                return name
            if fits_after_nominees(node, request, compute_room_left(node, kept[name], (), request.apart)):
                return name
        return None

    async def _write(self, attempt: WakeAttempt) -> None:
        ref = attempt.request.pod
        try:
            moment = rfc3339_micro(self._clock.now())
            await self._client.patch_pod_annotations(ref, {ROOM_FOUND: moment}, timeout_s=_WRITE_S)
        except (NotFoundError, ConflictError):
            self.attempts.pop(ref.uid, None)
            self.refused.forget(ref.uid)
        except GcushareError as error:
            self.counters["failed"] += 1
            self.attempts.pop(ref.uid, None)
            now = self._clock.monotonic()
            if (pod := self.refused.pods.get(ref.uid)) is not None:
                pod.woken_s, pod.not_before_s = -math.inf, now + RETRY_S
            if now >= self._warn_at_s:
                self._warn_at_s = now + _WARN_EVERY_S
                logger.warning(
                    "room found, but not noted on the pod: tried again later; it takes the right to patch pods/status "
                    "%s",
                    fields(pod=ref, node=attempt.node, reason=error),
                )
        else:
            self.counters["written"] += 1
            attempt.until_s = self._clock.monotonic() + ANSWER_S
            logger.info("room found, scheduler is to try again %s", fields(pod=ref, uid=ref.uid, node=attempt.node))
