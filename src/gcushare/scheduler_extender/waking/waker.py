"""Room that became free, and the pods that wait for it: kube-scheduler is made to ask about those that would fit now.

kube-scheduler asks again about a pod that was refused when it hears of something that may have made room, and at the
latest after five minutes. It may hear before our own watch does, and of a healthy card or a lifted cordon it may not
hear at all. So the replica that serves remembers the refused pods; where room appears and the scheduler does not come
by itself, one annotation on the pod makes it (an annotation, because of all writes it is what every version heeds).

At most one write per pod and room: a pod that was asked about again is a new case, and one that the scheduler left
alone (another resource keeps it) is written to again only when another node has room, or once more where the scheduler
asked about no pod at all meanwhile: it may have tried and not reached us. As many pods are woken as would fit one after
the other, in the scheduler's order.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice

from gcushare.core.backoff import doubled_s
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.kube.clock import Clock, SystemClock, rfc3339_micro
from gcushare.kube.pacing import TokenBucket
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.ports import WakeApi
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.waking.refused_pods import Claim, RefusedGroup, RefusedPod, RefusedPods
from gcushare.scheduler_extender.waking.tried_room import TriedRoom

log = logging.getLogger(__name__)

LOOK_S = 0.1
"""Between two looks, while the ledger changes or something is due."""
IDLE_S = 2.0
"""Between two looks otherwise, which alone show whether this replica serves, and who waits."""
SETTLE_S = 0.2
"""How long room stays before a pod is woken: a scheduler that heard of it asks within milliseconds."""
LONGEST_SETTLE_S = 1.0
"""The same while the scheduler goes on asking about such pods by itself."""
ANSWER_S = 2.0
"""How long the room stays meant for a pod that was woken, and that the scheduler has not asked about yet."""
ADOPT_S = 5.0
"""After this replica began to serve, and whenever the scheduler asked about no pod for so long: who waits then and was
not asked about may have been refused by another replica, or got an error, after which schedulers up to 1.26 wait for an
event too."""

WRITES_PER_S = 100.0
BURST_WRITES = 200
_WRITES_AT_ONCE = 8
_WRITE_S = 2.0
_LONGEST_PAUSE_S = 60.0
_FIRST_PAUSE_S = 1.0

_PLACED_PER_LOOK = 16
_PASSED_PER_LOOK = 512
"""Pods whose pause is not over, or that hold a reservation, cost next to nothing; those behind them have their turn."""
_MAX_CLAIMS = 64
_NODES_PER_GROUP = 256
"""So that choosing takes some milliseconds at most: 160 pods a second, and 64 not asked about yet."""

_NODES_PER_TURN = 512
_CLEAN_S = 10.0


@dataclass(slots=True)
class WakeCounters:
    """What became of pods for which room was found, for metrics."""

    written: int = 0
    failed: int = 0
    unanswered: int = 0
    """Written, but the scheduler did not ask within ``ANSWER_S``: something else than cards keeps the pod."""


class RoomWaker:
    """Wakes the refused pods of one vendor. The ``note_`` methods are called on the scheduler's path and only remember.

    ``serves``: whether this replica answers the scheduler.
    """

    def __init__(
        self, state: VendorState, api: WakeApi, serves: Callable[[], bool], *, clock: Clock | None = None
    ) -> None:
        self._state = state
        state.ledger.listen(lambda _node: self._stirred.set())
        self._stirred = asyncio.Event()
        """Set when a look may find something: room can only appear where the ledger changed."""
        self._api = api
        self._serves = serves
        self._clock = clock or SystemClock()
        self._bucket = TokenBucket(WRITES_PER_S, BURST_WRITES, self._clock)
        self._slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._refused = RefusedPods()
        self._claims: dict[str, Claim] = {}
        self._is_serving = False
        self._asked: set[str] = set()
        """Who was asked about since this replica began to serve, or since the last look at who was not."""
        self._adopted: set[str] = set()
        """Who was taken for refused, and not asked about since: for them that is done once."""
        self._unprompted_s = -math.inf
        """When the scheduler last came by itself to one of them, or to any while this replica was new."""
        self._waited: set[str] = set()
        """Who waited at the last such look; a scheduler may not have heard yet of who is younger."""
        self._is_new = False
        """Whether it began to serve less than ``ADOPT_S`` ago."""
        self._adopt_at_s = 0.0
        self._heard_s = -math.inf
        """When the scheduler last asked about any pod."""
        self._unheard: dict[str, Claim] = {}
        """Who was given up while it was not heard of."""
        self._unheard_s = 0.0
        self._clean_at_s = self._warn_at_s = 0.0
        self.counters = WakeCounters()

    # What the scheduler does

    def note_refused(self, request: SchedulingRequest) -> None:
        """Remember a pod that fits none of the nodes that it was just asked about with."""
        asked = self._state.asked.get(request.pod.uid)
        if asked is None:
            return  # Too many nodes to remember.
        group = self._refused.group(request.shape, asked)
        pod = self._remember(request)
        pod.failures, pod.not_before_s, pod.is_repeated = 0, 0.0, False
        group.add(pod)
        group.note_no_room(self._state.changes.position)

    def note_offered(self, request: SchedulingRequest) -> None:
        """Take in that the scheduler was offered nodes for a pod, so it is at work on it."""
        uid = request.pod.uid
        self._note_asked(uid)
        pod = self._refused.pods.get(uid)
        if pod is None:
            return
        now = self._clock.monotonic()
        if pod.group is not None:
            pod.group.asked_s = now
            pod.group.remove(pod)
        if (claim := self._claims.get(uid)) is not None:
            claim.until_s, claim.is_offered = now + ANSWER_S, True

    def note_unbound(self, uid: str) -> None:
        """Remember a pod whose binding failed: old schedulers try it again only at the next event as well."""
        request = self._state.find_request(uid)
        if request is None:
            return
        self._put_back(self._remember(request), self._state.asked.get(uid))

    def _note_asked(self, uid: str) -> None:
        if not self._is_serving:
            self._stirred.set()
        self._heard_s = self._clock.monotonic()
        self._asked.add(uid)
        if (self._is_new or uid in self._adopted) and uid not in self._claims:
            self._unprompted_s = self._heard_s
        self._adopted.discard(uid)

    def _remember(self, request: SchedulingRequest) -> RefusedPod:
        uid = request.pod.uid
        self._note_asked(uid)
        self._claims.pop(uid, None)
        return self._refused.remember(request)

    def _forget(self, uid: str) -> None:
        self._claims.pop(uid, None)
        self._refused.forget(uid)

    def _put_back(self, pod: RefusedPod, asked: frozenset[str] | None) -> None:
        """Let a pod that was not helped wait for a moment, longer each time, before it is woken."""
        pod.not_before_s = self._clock.monotonic() + doubled_s(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, pod.failures)
        pod.failures += 1
        group = self._refused.group(pod.request.shape, asked)
        group.add(pod)
        group.position = -1
        self._stirred.set()

    # Looking

    async def run(self) -> None:
        """Wake pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._stir_now_and_then(), name="look now and then")
            while True:
                await self._clock.sleep(LOOK_S)
                await self._stirred.wait()
                self._stirred.clear()
                if not self._serves():
                    self._stop_serving()
                    continue
                if not self._is_serving:
                    self._start_serving()
                await self._look()
                for claim in self._choose():
                    tasks.create_task(self._write(claim), name=f"wake {claim.pod.request.pod}")
                if self._claims or any(group.room for group in self._refused.groups.values()):
                    self._stirred.set()  # Room has to settle, or an answer is due.

    async def _stir_now_and_then(self) -> None:
        while True:
            await self._clock.sleep(IDLE_S)
            self._stirred.set()

    def _start_serving(self) -> None:
        self._is_serving = self._is_new = True
        self._asked = set()
        self._adopt_at_s = self._clock.monotonic() + ADOPT_S

    def _stop_serving(self) -> None:
        if not self._is_serving:
            return
        self._is_serving = False
        self._refused = RefusedPods()
        self._claims.clear()
        self._unheard.clear()
        self._asked, self._adopted = set(), set()

    async def _look(self) -> None:
        """Follow the nodes that changed, give up what was not answered, and forget who is gone."""
        now = self._clock.monotonic()
        if now >= self._adopt_at_s:
            if self._is_new or not self._asked:
                self._adopt()
            self._is_new, self._asked, self._adopt_at_s = False, set(), now + ADOPT_S
            self._waited = set(self._state.waiting)
        for uid, claim in list(self._claims.items()):
            if self._state.find_request(uid) is None:
                self._forget(uid)  # It is bound, or gone: what it was meant to have is another's soon enough.
            elif now >= claim.until_s:
                self._give_up(claim)
        self._wake_unheard()
        if now >= self._clean_at_s:
            self._clean_at_s = now + _CLEAN_S
            self._adopted &= self._state.waiting.keys()
            for uid in [uid for uid in self._refused.pods if self._state.find_request(uid) is None]:
                self._forget(uid)
            self._unheard = {uid: each for uid, each in self._unheard.items() if each.pod.group is not None}
        changes, turns = self._state.changes, CooperativeYield(_NODES_PER_TURN)
        since: dict[tuple[int, int], set[str] | None] = {}
        self._refused.drop_empty_groups()
        self._state.nominations.announce_ended()
        released, self._state.nominations.released = self._state.nominations.released, set()
        for group in list(self._refused.groups.values()):
            group.released |= released
            span = (group.position, changes.position)
            if span[0] == span[1]:
                continue
            if span not in since:
                since[span] = changes.since(span[0]) if span[0] >= 0 else None
            await turns.after(1 + group.look(self._state.ledger.nodes, since[span], span[1], now))

    def _adopt(self) -> None:
        """Take all others that wait for refused: by the leader before, or as they got an error instead of an answer.

        In the order in which they were seen, which is about the one in which they came. A scheduler that is at work
        gets to its other pods by itself; one that asks about none has none that it would try without an event. Of a
        scheduler that has just started neither is known yet: while it comes to these pods by itself, and for
        ``ADOPT_S`` after, none of them is woken. Without that, each pod of a long queue was written to
        right before its turn, which cost the API server as much as binding it.
        """
        for uid in self._state.waiting:
            if not self._is_new and uid not in self._waited:
                continue
            known = self._refused.pods.get(uid)
            is_followed = uid in self._claims or (known is not None and known.group is not None)
            if is_followed or uid in self._asked or uid in self._adopted:
                continue
            request = self._state.find_request(uid)
            if request is not None:
                self._adopted.add(uid)
                self._refused.group(request.shape, None).add(self._refused.remember(request))

    def _give_up(self, claim: Claim) -> None:
        """Leave a pod alone that the scheduler does not come back for, until another node has room.

        Where it came, was offered nodes and did not bind the pod, our answer may not have reached it, after which
        schedulers up to 1.26 wait for an event: such a pod is woken again, later each time.
        """
        pod = claim.pod
        del self._claims[pod.uid]
        if pod.group is not None or self._state.ledger.assignment(pod.uid) is not None:
            return
        if claim.is_offered:
            self._put_back(pod, claim.asked)
            return
        self.counters.unanswered += 1
        position = self._state.changes.position
        self._refused.group(pod.request.shape, claim.asked, claim.ignored, position).add(pod)
        if self._heard_s < claim.until_s - ANSWER_S:
            self._unheard[pod.uid] = claim
            self._unheard_s = self._clock.monotonic()

    def _wake_unheard(self) -> None:
        """Wake again, once, who was given up while the scheduler was not heard of, now that it is."""
        if self._heard_s < self._unheard_s:
            return
        for claim in self._unheard.values():
            if claim.pod.group is not None and not claim.pod.is_repeated:
                claim.pod.is_repeated = True
                self._put_back(claim.pod, claim.asked)
        self._unheard.clear()

    # Choosing

    def _choose(self) -> list[Claim]:
        """Choose whom to wake: who would fit, each beside those before it, and for whom the room has settled."""
        if len(self._claims) >= _MAX_CLAIMS:
            return []
        line = [
            (pod.order, number, group, sorted(islice(group.room, _NODES_PER_GROUP), reverse=True))
            for number, group in enumerate(self._refused.groups.values())
            if group.room and (pod := group.first()) is not None
        ]
        if not line:
            return []
        heapify(line)
        now, ledger = self._clock.monotonic(), self._state.ledger
        tried = TriedRoom(ledger.nodes)
        for claim in self._claims.values():
            if ledger.assignment(claim.pod.uid) is None:
                request = claim.pod.request
                tried.place(request.pod, [claim.node], request.shape, request.card_policy)
        chosen: list[Claim] = []
        others: list[tuple[RefusedGroup, RefusedPod]] = []
        ignored: dict[int, frozenset[str]] = {}
        placed = passed = 0
        while line and placed < _PLACED_PER_LOOK and passed < _PASSED_PER_LOOK:
            _, number, group, names = heappop(line)
            pod = group.first()
            if pod is None:
                continue
            group.remove(pod)
            if self._state.find_request(pod.uid) is None:
                self._refused.pods.pop(pod.uid, None)
            elif ledger.assignment(pod.uid) is not None or now < pod.not_before_s:
                passed += 1
                others.append((group, pod))
            else:
                placed += 1
                request = pod.request
                node = tried.place(request.pod, names, request.shape, request.card_policy)
                if node is None or now < self._due_s(pod, group):
                    others.append((group, pod))
                else:
                    if number not in ignored:
                        ignored[number] = frozenset(group.room | group.ignored)
                    claim = Claim(pod, node, group.asked, ignored[number], now + _LONGEST_PAUSE_S)
                    self._claims[pod.uid] = claim
                    chosen.append(claim)
                if node is None:
                    continue  # Nor has the group's next pod room.
            if (following := group.first()) is not None:
                heappush(line, (following.order, number, group, names))
        for group, pod in others:
            group.add(pod)
        return chosen

    def _due_s(self, pod: RefusedPod, group: RefusedGroup) -> float:
        """From when a pod of a group may be woken."""
        since_s = group.since_s or 0.0
        if pod.uid in self._adopted:
            return max(since_s + SETTLE_S, self._unprompted_s + ADOPT_S)
        return max(since_s + SETTLE_S, min(group.asked_s + SETTLE_S, since_s + LONGEST_SETTLE_S))

    async def _write(self, claim: Claim) -> None:
        pod = claim.pod
        ref = pod.request.pod
        async with self._slots:
            await self._bucket.take()
            if self._claims.get(pod.uid) is not claim:
                return  # The scheduler asked meanwhile.
            try:
                moment = rfc3339_micro(self._clock.now())
                await self._api.note_room(ref, moment, timeout_s=_WRITE_S)
            except (NotFoundError, ConflictError):
                self._forget(pod.uid)
                return
            except GcushareError as error:
                self._fail(claim, error)
                return
        self.counters.written += 1
        log.info("room found, scheduler is to try again %s", fields(pod=ref, uid=ref.uid, node=claim.node))
        if self._claims.get(pod.uid) is claim:
            claim.until_s = self._clock.monotonic() + ANSWER_S

    def _fail(self, claim: Claim, error: GcushareError) -> None:
        self.counters.failed += 1
        if (now := self._clock.monotonic()) >= self._warn_at_s:
            self._warn_at_s = now + _LONGEST_PAUSE_S
            log.warning(
                "room found, but not noted on the pod: tried again later; it takes the right to patch pods/status %s",
                fields(pod=claim.pod.request.pod, node=claim.node, reason=error),
            )
        if self._claims.get(claim.pod.uid) is claim:
            del self._claims[claim.pod.uid]
            self._put_back(claim.pod, claim.asked)
