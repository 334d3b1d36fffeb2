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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from gcushare.core.assignments import Assignment
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES, choose_cards
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, rfc3339_micro
from gcushare.kube.write_rate import TokenBucket
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

WRITES_PER_S = 100.0
BURST_WRITES = 200
_WRITES_AT_ONCE = 8
_WRITE_S = 2.0
_WARN_EVERY_S = 60.0
MAX_ATTEMPTS = 64
"""Pods whose room is kept at the same time."""
MOST_PER_CHECK = 16
_MAX_FULL_GROUPS = 64
"""Groups per check whose room is all kept for woken pods."""
_NODES_PER_GROUP = 256
_NODES_PER_TURN = 512

FREE_FAILURES = 4
"""Pods of a namespace in a row that may be woken and not bound before its other pods come last."""
FORGET_S = 600.0
"""All namespaces start over after so long."""


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
        self._bucket = TokenBucket(WRITES_PER_S, BURST_WRITES, self._clock)
        self._slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._changed = asyncio.Event()
        """Set when a check may find something: room appears only on nodes that changed in the ledger."""
        state.ledger.listen(lambda _node: self._changed.set())
        self.refused = RefusedPods()
        self.attempts: dict[str, WakeAttempt] = {}
        self._inherited: dict[str, None] = {}
        """By uid: pods that waited when this replica began to serve, and that were not asked about since."""
        self._inherit_at_s: float | None = None
        """When those count as refused; None while this replica does not serve."""
        self._unbound: Counter[str] = Counter()
        """By namespace: pods in a row that were woken and not bound. Their room was kept from others meanwhile."""
        self._forget_at_s = self._warn_at_s = 0.0
        self.counters: Counter[str] = Counter()
        """Pods for which room was found, for metrics: written; failed; unanswered, because something other than cards
        keeps the pod."""

    def on_refused(self, request: SchedulingRequest) -> None:
        """Record a pod that fits none of the nodes that the scheduler just asked about."""
        self.attempts.pop(request.pod.uid, None)
        self._inherited.pop(request.pod.uid, None)
        self.refused.add(request, self._state.refused_on.get(request.pod.uid), self._state.changes.position)

    def on_offered(self, request: SchedulingRequest) -> None:
        """Record that the scheduler was offered nodes for a pod, so it is at work on the pod."""
        self.refused.forget(request.pod.uid)
        self._inherited.pop(request.pod.uid, None)
        if (attempt := self.attempts.get(request.pod.uid)) is not None:
            attempt.is_asked, attempt.until_s = True, self._clock.monotonic() + ANSWER_S

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
                    self.refused, self._inherit_at_s = RefusedPods(), None
                    self.attempts.clear()
                    continue
                self._inherit()
                self._end_attempts()
                await self._update_groups()
                for attempt in self._choose():
                    tasks.create_task(self._write(attempt), name=f"wake {attempt.request.pod}")
                if self.attempts or any(group.room for group in self.refused.groups.values()):
                    self._changed.set()  # Room has to settle, or an answer is due.

    async def _check_when_idle(self) -> None:
        while True:
            await self._clock.sleep(IDLE_CHECK_S)
            for uid in [uid for uid in self.refused.pods if self._state.find_request(uid) is None]:
                self.refused.forget(uid)
            self._changed.set()

    def _inherit(self) -> None:
        """Count pods as refused that the replica before this one may have refused."""
        now = self._clock.monotonic()
        if self._inherit_at_s is None:
            self._inherited, self._inherit_at_s = dict.fromkeys(self._state.waiting), now + LEFT_ALONE_S
        if now < self._inherit_at_s:
            return
        for uid in self._inherited:
            request = self._state.find_request(uid)
            if request is not None and not request.gates and uid not in self.refused.pods:
                self.refused.add(request, asked=None, position=-1)  # Before the log: any node counts, and any change.
        self._inherited.clear()

    def _end_attempts(self) -> None:
        """End the attempts whose pod is bound or gone, or whose time is over."""
        now = self._clock.monotonic()
        if now >= self._forget_at_s:
            self._forget_at_s = now + FORGET_S
            self._unbound.clear()
        for uid, attempt in list(self.attempts.items()):
            is_gone = self._state.find_request(uid) is None
            if not is_gone and now < attempt.until_s:
                continue
            del self.attempts[uid]
            if self._state.ledger.assignment(uid) is not None:
                del self._unbound[attempt.request.pod.namespace]
            else:
                self._unbound[attempt.request.pod.namespace] += 1
                self.counters["unanswered"] += not (attempt.is_asked or is_gone)

    async def _update_groups(self) -> None:
        """Update the room of every group."""
        now, changes, nominations = self._clock.monotonic(), self._state.changes, self._state.nominations
        nominations.announce_ended()
        released, nominations.released = nominations.released, set()
        turns, since = CooperativeYield(_NODES_PER_TURN), dict[tuple[int, int], list[str] | None]()
        for group in list(self.refused.groups.values()):
            span = (group.position, changes.position)
            if span[0] == span[1]:
                continue
            if span not in since:
                names = changes.since(span[0])
                since[span] = None if names is None else sorted(names)
            group.update_room(self._state.ledger.nodes, since[span], released, now)
            group.position = span[1]
            await turns.after(1 + len(self._state.ledger.nodes if since[span] is None else since[span] or ()))

    def _choose(self) -> list[WakeAttempt]:
        """Begin an attempt for each pod that would fit in addition to those before it, where the room has settled."""
        now = self._clock.monotonic()
        most = min(MOST_PER_CHECK, MAX_ATTEMPTS - len(self.attempts))
        last = {namespace for namespace, failures in self._unbound.items() if failures >= FREE_FAILURES}
        trial, begun, full = _Trial(self._state.ledger.nodes), list[WakeAttempt](), set[RefusedGroup]()
        for uid, attempt in self.attempts.items():
            if self._state.ledger.assignment(uid) is None:
                trial.place(attempt.request, (attempt.node,))
        for first in self.refused.find_next(most, now - SETTLE_S, now, self.attempts, last):
            if len(begun) >= most or len(full) >= _MAX_FULL_GROUPS:
                break
            for uid, pod in self._find_members(first):
                if self._state.find_request(uid) is None:
                    self.refused.forget(uid)
                if uid not in self.refused.pods or uid in self.attempts or pod.group in full:
                    continue
                if (node := trial.place(pod.request, pod.group.find_room(pod, now - SETTLE_S))) is None:
                    full |= {pod.group} if pod is first else set()
                    continue
                pod.woken_s = now
                self.attempts[uid] = WakeAttempt(pod.request, node, now + ANSWER_S)
                begun.append(self.attempts[uid])
        return begun

    def _find_members(self, pod: RefusedPod) -> list[tuple[str, RefusedPod]]:
        """The pod with the refused pods of its PodGroup, which kube-scheduler places together."""
        members = [(pod.request.pod.uid, pod)]
        if group := pod.request.group:
            pods = self.refused.pods.items()
            members += [(uid, other) for uid, other in pods if other.request.group == group and other is not pod]
        return members

    async def _write(self, attempt: WakeAttempt) -> None:
        ref = attempt.request.pod
        async with self._slots:
            await self._bucket.take()
            if self.attempts.get(ref.uid) is not attempt or attempt.is_asked:
                return  # The scheduler asked meanwhile.
            try:
                moment = rfc3339_micro(self._clock.now())
                await self._client.patch_pod_annotations(ref, {ROOM_FOUND: moment}, timeout_s=_WRITE_S)
            except (NotFoundError, ConflictError):
                self.attempts.pop(ref.uid, None)
                self.refused.forget(ref.uid)
            except GcushareError as error:
                self._fail(attempt, error)
            else:
                self.counters["written"] += 1
                attempt.until_s = self._clock.monotonic() + ANSWER_S
                logger.info("room found, scheduler is to try again %s", fields(pod=ref, uid=ref.uid, node=attempt.node))

    def _fail(self, attempt: WakeAttempt, error: GcushareError) -> None:
        self.counters["failed"] += 1
        now, ref = self._clock.monotonic(), attempt.request.pod
        self.attempts.pop(ref.uid, None)
        if (pod := self.refused.pods.get(ref.uid)) is not None:
            pod.woken_s, pod.not_before_s = -math.inf, now + RETRY_S
        if now >= self._warn_at_s:
            self._warn_at_s = now + _WARN_EVERY_S
            logger.warning(
                "room found, but not noted on the pod: tried again later; it takes the right to patch pods/status %s",
                fields(pod=ref, node=attempt.node, reason=error),
            )


class _Trial:
    """The nodes of a ledger, to which pods are added on trial; the ledger itself does not change."""

    def __init__(self, nodes: Mapping[str, NodeState]) -> None:
        self._nodes = nodes
        self._copies: dict[str, NodeState] = {}

    def place(self, asked: SchedulingRequest, names: Iterable[str]) -> str | None:
        """Give a pod cards of one of these nodes; returns the node, or None if none has room."""
        for name in islice(names, _NODES_PER_GROUP):
            node = self._copies.get(name) or self._nodes.get(name)
            if node is None or not node.known or not node.fits(asked.cards):
                continue
            cards = choose_cards(node, asked.cards, POLICIES[asked.card_policy].rank_card)
            if cards is not None:
                if name not in self._copies:
                    self._copies[name] = node = node.copy()
                grants = tuple(card.grant(asked.cards) for card in cards)
                node.add(Assignment(asked.pod, name, grants, apart=asked.cards.apart))
                return name
        return None
