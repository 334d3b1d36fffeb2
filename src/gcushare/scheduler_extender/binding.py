"""bind: reserve in the ledger, send one Binding that carries the record, and know what became of it.

The steps, and what is true when the process dies after each of them:

1. reserve: nothing outside has changed; the restarted extender counts the pods that are bound, so not this one.
2. Binding sent: the API server binds the pod with its record or does neither; the restarted extender reads which.
3. answered: the reservation stays until the watch confirms it, or until the settling reads the pod.

A Binding whose outcome is unknown is never guessed: the pod is read. A pod is bound once and for ever, so sending the
same Binding again is harmless.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from gcushare.core.errors import (
    ConflictError,
    GcushareError,
    NotFoundError,
    Refused,
    RetryableError,
)
from gcushare.core.nodes import Assignment
from gcushare.kube.errors import UnknownOutcomeError
from gcushare.kube.patches import PodIdentity
from gcushare.runtime.logs import fields
from gcushare.scheduler_extender.asking import Asking, read_asking
from gcushare.scheduler_extender.outcomes import BindTimes, Found, NotLeader, judge
from gcushare.scheduler_extender.ports import Leadership, PodApi
from gcushare.scheduler_extender.state import VendorState
from gcushare.wire.extender import BindArguments
from gcushare.wire.records import PodRecord, encode_record

log = logging.getLogger(__name__)

_FIRST_WAIT_S = 0.05
_CAP_WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class _Unsettled:
    """A reservation whose binding ended here and that the watch has not confirmed yet."""

    identity: PodIdentity
    node: str
    is_acknowledged: bool
    since_s: float


@dataclass(frozen=True, slots=True)
class _Attempt:
    identity: PodIdentity
    assignment: Assignment
    annotations: dict[str, str]
    deadline_s: float


class BindService:
    """Binds pods of one vendor. Calls for one pod are joined: the scheduler may ask again before it has its answer."""

    def __init__(
        self,
        state: VendorState,
        api: PodApi,
        leadership: Leadership,
        *,
        times: BindTimes | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._api = api
        self._leadership = leadership
        self._times = times or BindTimes()
        self._now_ns = now_ns
        self._monotonic = monotonic
        self._under_way: dict[str, tuple[str, asyncio.Task[None]]] = {}
        self._unsettled: dict[str, _Unsettled] = {}
        self.conflicts = 0
        """Bindings that the API server refused because the pod had changed, for metrics."""
        self.unknown_outcomes = 0
        """Bindings whose outcome had to be read, for metrics."""

    async def bind(self, arguments: BindArguments) -> None:
        """Bind a pod to a node and choose its cards; safe to repeat.

        Raises:
            NotLeader: another replica serves.
            Refused: pod or node unknown, another pod of that name, bound elsewhere, or the room was taken meanwhile.
            GcushareError: the API server refused or could not be asked; the message says what became of the pod.
        """
        under_way = self._under_way.get(arguments.pod_uid)
        if under_way is not None:
            node, task = under_way
            if node != arguments.node:
                raise Refused(f"pod {_name(arguments)} is being bound to node {node!r}; ask again when that has ended")
        else:
            # Its own task: a scheduler that gives up waiting must not cancel a Binding half sent.
            task = asyncio.create_task(self._bind(arguments), name=f"bind {_name(arguments)}")
            self._under_way[arguments.pod_uid] = (arguments.node, task)
            task.add_done_callback(lambda done: self._finish(arguments.pod_uid, done))
        await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait for the bindings under way."""
        tasks = [task for _, task in self._under_way.values()]
        if tasks:
            await asyncio.wait(tasks)

    @property
    def under_way(self) -> int:
        """Bindings that were begun and have no answer yet."""
        return len(self._under_way)

    def _finish(self, uid: str, task: asyncio.Task[None]) -> None:
        del self._under_way[uid]
        if not task.cancelled():
            task.exception()  # Seen: whoever asked gets it; when nobody waits any more, the log line was written.

    async def _bind(self, arguments: BindArguments) -> None:
        self._check_leader()
        started = self._monotonic()
        deadline_s = started + self._times.total_s
        try:
            if self._is_done(arguments):
                return
            asking = await self._find_asking(arguments, deadline_s)
            attempt = self._reserve(arguments, asking, deadline_s)
            await self._send(attempt)
        except GcushareError as error:
            log.warning(
                "not bound %s",
                fields(pod=_name(arguments), uid=arguments.pod_uid, node=arguments.node, reason=error),
            )
            raise
        held = attempt.assignment
        log.info(
            "bound %s",
            fields(
                pod=_name(arguments),
                uid=arguments.pod_uid,
                node=arguments.node,
                card=",".join(str(grant.index) for grant in held.grants),
                units=held.units,
                ms=round((self._monotonic() - started) * 1000, 2),
            ),
        )

    def _check_leader(self) -> None:
        # With the margin, a request that leaves now has ended before another replica may begin to serve.
        if not self._leadership.holds(self._times.attempt_s):
            raise NotLeader(
                f"this replica does not serve; the leader is {self._leadership.holder or 'not elected yet'}"
            )

    def _is_done(self, arguments: BindArguments) -> bool:
        """Whether an earlier call for this pod came true; a call for another node is then refused."""
        uid = arguments.pod_uid
        held = self._state.bound.get(uid)
        if held is None:
            unsettled = self._unsettled.get(uid)
            if unsettled is None or not unsettled.is_acknowledged or not self._state.ledger.is_reserved(uid):
                return False
            held = self._state.ledger.assignment(uid)
        if held is None:
            return False
        if (held.pod.namespace, held.pod.name) != (arguments.pod_namespace, arguments.pod_name):
            raise Refused(f"uid {uid!r} is pod {held.pod}, not {_name(arguments)}")
        if held.node != arguments.node:
            raise Refused(f"pod {_name(arguments)} is bound to node {held.node!r} already, not {arguments.node!r}")
        return True

    async def _find_asking(self, arguments: BindArguments, deadline_s: float) -> Asking:
        """What the pod asks for: known from watch or filter, else read; the uid and name must be one pod's."""
        waiting = self._state.waiting.get(arguments.pod_uid)
        if waiting is not None and waiting.asking is None:
            raise Refused(f"pod {_name(arguments)}: {waiting.problem}")
        asking = self._state.find_asking(arguments.pod_uid)
        if asking is None:
            asking = await self._read_asking(arguments, deadline_s)
        if (asking.pod.namespace, asking.pod.name) != (arguments.pod_namespace, arguments.pod_name):
            raise Refused(f"uid {arguments.pod_uid!r} is pod {asking.pod}, not {_name(arguments)}")
        return asking

    async def _read_asking(self, arguments: BindArguments, deadline_s: float) -> Asking:
        try:
            pod = await self._api.read_pod(
                arguments.pod_namespace, arguments.pod_name, timeout_s=self._patience_s(deadline_s)
            )
        except NotFoundError as error:
            raise Refused(f"pod {_name(arguments)} does not exist") from error
        if pod.metadata.uid != arguments.pod_uid:
            raise Refused(
                f"pod {_name(arguments)} has uid {pod.metadata.uid!r}, not {arguments.pod_uid!r}: it is another pod"
            )
        if pod.is_bound:
            raise Refused(f"pod {_name(arguments)} is bound to node {pod.spec.node_name!r} already")
        asking = read_asking(pod, self._state.vendor, self._state.policies)
        if asking is None:
            raise Refused(f"pod {_name(arguments)} asks for no {self._state.vendor.memory_resource} and no whole card")
        return asking

    def _reserve(self, arguments: BindArguments, asking: Asking, deadline_s: float) -> _Attempt:
        ledger = self._state.ledger
        if ledger.is_reserved(arguments.pod_uid):
            # Left by a bind whose outcome stayed unknown. The pod can only be bound once: what it may hold moves along.
            ledger.roll_back(arguments.pod_uid)
        ledger.reserve(asking.pod, arguments.node, asking.request.cards, asking.card_policy)
        assignment = ledger.stamp(arguments.pod_uid, self._now_ns())
        cards = ledger.nodes[arguments.node].cards
        record = PodRecord(
            card_indexes=tuple(grant.index for grant in assignment.grants),
            card_units=max(cards[grant.index].total for grant in assignment.grants),
            pod_units=assignment.units,
            assign_time_ns=assignment.assign_time_ns,
            whole=asking.request.cards.whole,
        )
        identity = PodIdentity(arguments.pod_namespace, arguments.pod_name, arguments.pod_uid)
        return _Attempt(identity, assignment, encode_record(self._state.vendor, record), deadline_s)

    async def _send(self, attempt: _Attempt) -> None:
        """Send the Binding until its outcome is known or the time is up; the ledger follows the outcome."""
        wait_s, is_doubtful = _FIRST_WAIT_S, False
        while True:
            try:
                await self._send_once(attempt)
            except RetryableError as error:
                is_doubtful = is_doubtful or isinstance(error, UnknownOutcomeError)
                if isinstance(error, NotLeader) or self._monotonic() + wait_s >= attempt.deadline_s:
                    self._leave(attempt, is_doubtful=is_doubtful)
                    raise
            except GcushareError:
                self._state.ledger.roll_back(attempt.identity.uid)
                raise
            else:
                self._note_unsettled(attempt, is_acknowledged=True)
                return
            await asyncio.sleep(wait_s)
            wait_s = min(_CAP_WAIT_S, wait_s * 2)

    def _leave(self, attempt: _Attempt, *, is_doubtful: bool) -> None:
        """End without success. Where a Binding may still take effect, its reservation stays until that is known."""
        if is_doubtful:
            self._note_unsettled(attempt, is_acknowledged=False)
        else:
            self._state.ledger.roll_back(attempt.identity.uid)

    def _note_unsettled(self, attempt: _Attempt, *, is_acknowledged: bool) -> None:
        uid = attempt.identity.uid
        if self._state.ledger.is_reserved(uid):
            node = attempt.assignment.node
            self._unsettled[uid] = _Unsettled(attempt.identity, node, is_acknowledged, self._monotonic())

    async def _send_once(self, attempt: _Attempt) -> None:
        """Send the Binding once and, where the answer does not say what became of it, read the pod."""
        try:
            self._check_leader()
            await self._api.bind_pod(
                attempt.identity,
                attempt.assignment.node,
                attempt.annotations,
                timeout_s=self._patience_s(attempt.deadline_s),
            )
        except NotFoundError as error:
            raise Refused(f"pod {_identity_name(attempt.identity)} does not exist any more") from error
        except ConflictError as error:
            self.conflicts += 1
            await self._resolve(attempt, error)
        except UnknownOutcomeError as error:
            self.unknown_outcomes += 1
            await self._resolve(attempt, error)

    async def _resolve(self, attempt: _Attempt, cause: GcushareError) -> None:
        """Read the pod after an answer that leaves its state open; returns when it is bound as we asked."""
        identity = attempt.identity
        try:
            pod = await self._api.read_pod(
                identity.namespace, identity.name, timeout_s=self._patience_s(attempt.deadline_s)
            )
        except NotFoundError as error:
            raise Refused(f"pod {_identity_name(attempt.identity)} does not exist any more") from error
        except RetryableError as error:
            raise UnknownOutcomeError(f"{cause}; reading the pod failed as well: {error}") from error
        match judge(pod, identity.uid, attempt.assignment.node):
            case Found.AS_ASKED:
                self._state.see_pod(pod)
            case Found.ELSEWHERE:
                self._state.see_pod(pod)
                raise Refused(
                    f"pod {_identity_name(attempt.identity)} is bound to node {pod.spec.node_name!r} already"
                ) from cause
            case Found.GONE:
                raise Refused(
                    f"pod {_identity_name(attempt.identity)} does not exist any more or is being deleted"
                ) from cause
            case Found.UNBOUND if isinstance(cause, UnknownOutcomeError):
                raise cause
            case Found.UNBOUND:
                raise RetryableError(
                    f"pod {_identity_name(attempt.identity)} changed while it was being bound: {cause}"
                ) from cause

    async def settle(self, *, older_than_s: float) -> None:
        """Read the pods whose reservations nobody confirmed for so long, and make the ledger follow what they say.

        The watch settles all others first; this is for outcomes that stayed unknown and events that never came.
        """
        for uid, unsettled in list(self._unsettled.items()):
            if not self._state.ledger.is_reserved(uid):
                del self._unsettled[uid]
            elif uid not in self._under_way and self._monotonic() - unsettled.since_s >= older_than_s:
                await self._settle_one(unsettled)

    async def _settle_one(self, unsettled: _Unsettled) -> None:
        identity, ledger = unsettled.identity, self._state.ledger
        try:
            pod = await self._api.read_pod(identity.namespace, identity.name, timeout_s=self._times.attempt_s)
            found = judge(pod, identity.uid, unsettled.node)
        except NotFoundError:
            pod, found = None, Found.GONE
        except GcushareError as error:
            log.warning("reservation stays unsettled %s", fields(pod=_identity_name(identity), reason=error))
            return
        if identity.uid in self._under_way or self._unsettled.get(identity.uid) is not unsettled:
            return  # The scheduler asked again while the pod was read: that bind decides.
        log.info("reservation settled %s", fields(pod=_identity_name(identity), node=unsettled.node, found=found.value))
        del self._unsettled[identity.uid]
        if pod is not None and found in (Found.AS_ASKED, Found.ELSEWHERE):
            self._state.see_pod(pod)
        ledger.roll_back(identity.uid)

    def _patience_s(self, deadline_s: float) -> float:
        return max(0.001, min(self._times.attempt_s, deadline_s - self._monotonic()))


def _name(arguments: BindArguments) -> str:
    return f"{arguments.pod_namespace}/{arguments.pod_name}"


def _identity_name(identity: PodIdentity) -> str:
    return f"{identity.namespace}/{identity.name}"
