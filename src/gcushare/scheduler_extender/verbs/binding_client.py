"""Send the Bindings of reservations, learn their outcomes, and confirm those that the watch does not.

An unknown outcome is never guessed: the pod is read. Until a read or the watch decides, the units stay reserved. A pod
is bound once, permanently, so sending the same Binding again is harmless.

A read counts only while the reservation exists. The watch ends the reservation, and it may have brought a later state
than an answer that took longer. Once a read counts, it holds until the watch reaches its version. If the watch does not
in time, the pod is read again.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError, Refused, RetryableError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.errors import UnknownOutcomeError
from gcushare.scheduler_extender.leadership import Leadership, NotLeader
from gcushare.scheduler_extender.state.pod_stores import NewerRead
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.objects import Pod

logger = logging.getLogger(__name__)

_FIRST_WAIT_S = 0.05
_CAP_WAIT_S = 0.5
_READS_AT_ONCE = 16


class Found(enum.Enum):
    """What a read of the pod says about our attempt to bind it."""

    AS_ASKED = "bound to the node that we asked for"
    ELSEWHERE = "bound to another node"
    UNBOUND = "not bound"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class BindTimes:
    """Seconds: ``total_s`` for one bind with all attempts, ``attempt_s`` for one request to the API server.

    With the defaults the answer comes within kube-scheduler's limit for an extender (5 s), and a request of a deposed
    leader ends before the next leader starts.
    """

    total_s: float = 4.0
    attempt_s: float = 2.0


def evaluate(pod: Pod, uid: str, node: str) -> Found:
    """Say what a pod that was just read means for binding ``uid`` to ``node``."""
    if pod.metadata.uid != uid:
        return Found.GONE
    if pod.is_bound:
        return Found.AS_ASKED if pod.spec.node_name == node else Found.ELSEWHERE
    return Found.GONE if pod.is_being_deleted else Found.UNBOUND


@dataclass(slots=True, eq=False)
class BindAttempt:
    """A reservation to be bound, and the record that its Binding carries.

    ``old_annotations``: what the pod has under the record's keys before. ``version``: the pod's latest known
    resourceVersion; a Binding is for the pod as it was then.
    """

    assignment: Assignment
    annotations: dict[str, str]
    old_annotations: tuple[tuple[str, str], ...] = ()
    version: str = ""

    @property
    def pod(self) -> PodRef:
        return self.assignment.pod


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """A reservation whose bind call ended, and that the watch has not confirmed yet."""

    attempt: BindAttempt
    is_acknowledged: bool
    since_s: float

    @property
    def node(self) -> str:
        return self.attempt.assignment.node


class BindingClient:
    """Sends Bindings for one vendor; the ledger follows their outcomes."""

    def __init__(
        self,
        state: VendorState,
        client: KubeClient,
        leadership: Leadership,
        times: BindTimes,
        monotonic: Callable[[], float],
    ) -> None:
        self._state = state
        self._client = client
        self._leadership = leadership
        self._times = times
        self._monotonic = monotonic
        self._unconfirmed: dict[str, Unconfirmed] = {}
        """By the key of the reservation: the pod's uid, or another key if it is parked."""
        self.conflicts = 0
        """Bindings that the API server refused because the pod had changed, for metrics."""
        self.unknown_outcomes = 0
        """Bindings whose outcome had to be read, for metrics."""

    def check_leader(self) -> None:
        """Make sure that this replica may send.

        Raises:
            NotLeader: it may not, or its lease ends too soon: a request that leaves now must end, here and at the API
                server, before another replica may begin to serve.
        """
        if not self._leadership.holds(self._times.attempt_s):
            raise NotLeader(self._leadership.holder)

    def patience_s(self, deadline_s: float) -> float:
        """Seconds that one request may take if it must end by ``deadline_s``."""
        return max(0.001, min(self._times.attempt_s, deadline_s - self._monotonic()))

    def unconfirmed(self, uid: str) -> Unconfirmed | None:
        """The reservation that an earlier call left: its Binding succeeded, or may still take effect."""
        found = self._unconfirmed.get(uid)
        return found if found is not None and self._state.ledger.is_reserved(uid) else None

    def park(self, uid: str) -> None:
        """Keep a doubtful reservation while a new one is made: the first Binding may still take effect."""
        self._unconfirmed[self._state.ledger.park(uid)] = self._unconfirmed.pop(uid)

    def unpark(self, uid: str, node: str) -> Unconfirmed | None:
        """Return a parked reservation to the pod's uid; None if there is none on this node."""
        key = self._state.ledger.unpark(uid, node)
        if key is None:
            return None
        found = self._unconfirmed[uid] = self._unconfirmed.pop(key)
        return found

    async def check_unbound(self, unconfirmed: Unconfirmed, deadline_s: float) -> None:
        """Read what a doubtful Binding did before the pod is bound to another node; returns if the pod is unbound.

        Raises:
            Refused: it is bound, or gone.
            GcushareError: the pod cannot be read now; nothing changes.
        """
        ref = unconfirmed.attempt.pod
        pod, found = await self._find(ref, unconfirmed.node, deadline_s)
        if found is not Found.UNBOUND:
            raise self._end(ref, pod, found)

    async def send(self, attempt: BindAttempt, deadline_s: float, *, version: str, is_doubtful: bool) -> None:
        """Send a Binding until its outcome is known or the deadline passes.

        ``version``: the pod's resourceVersion from before this call. If this process was paused and the Binding leaves
        late, the API server refuses it for a pod that has changed since.
        ``is_doubtful``: the same Binding was sent before, with unknown outcome.
        """
        wait_s, is_sure = _FIRST_WAIT_S, not is_doubtful
        attempt.version = version
        try:
            while True:
                try:
                    await self._send_once(attempt, deadline_s)
                    break
                except RetryableError as error:
                    is_sure = is_sure and not isinstance(error, UnknownOutcomeError)
                    if isinstance(error, NotLeader) or self._monotonic() + wait_s >= deadline_s:
                        raise
                await asyncio.sleep(wait_s)
                wait_s = min(_CAP_WAIT_S, wait_s * 2)
        except BaseException as error:
            # Refused: the pod was read, or it does not exist.
            if isinstance(error, Refused) or (is_sure and isinstance(error, GcushareError)):
                self._state.ledger.roll_back(attempt.pod.uid)
            else:
                # The Binding may have been sent and may still take effect: the reservation stays until that is known.
                self._record_unconfirmed(attempt, is_acknowledged=False)
            raise
        self._state.ledger.drop_parked(attempt.pod.uid)  # Bound here, so not to another node.
        self._record_unconfirmed(attempt, is_acknowledged=True)

    def _record_unconfirmed(self, attempt: BindAttempt, *, is_acknowledged: bool) -> None:
        uid = attempt.pod.uid
        if self._state.ledger.is_reserved(uid):
            self._unconfirmed[uid] = Unconfirmed(attempt, is_acknowledged, self._monotonic())

    async def _send_once(self, attempt: BindAttempt, deadline_s: float) -> None:
        """Send the Binding once. If the answer leaves its outcome open, read the pod."""
        try:
            self.check_leader()
            await self._client.bind_pod(
                attempt.pod,
                attempt.assignment.node,
                attempt.annotations,
                resource_version=attempt.version,
                timeout_s=self.patience_s(deadline_s),
            )
        except NotFoundError as error:
            self._state.pod_deleted(attempt.pod.uid)  # No event follows if a list did not contain it.
            raise _gone(attempt.pod) from error
        except ConflictError as error:
            self.conflicts += 1
            await self._resolve(attempt, deadline_s, error)
        except UnknownOutcomeError as error:
            self.unknown_outcomes += 1
            await self._resolve(attempt, deadline_s, error)

    async def _resolve(self, attempt: BindAttempt, deadline_s: float, cause: GcushareError) -> None:
        """Read the pod after an answer that leaves its state open; returns if it is bound as we asked."""
        ref = attempt.pod
        try:
            pod, found = await self._find(ref, attempt.assignment.node, deadline_s)
        except Refused:
            raise
        except GcushareError as error:
            raise UnknownOutcomeError(f"{cause}; reading the pod failed as well: {error}") from error
        attempt.version = pod.metadata.resource_version
        match found:
            case Found.AS_ASKED:
                self._apply_read(ref.uid, pod)
            case Found.UNBOUND if isinstance(cause, UnknownOutcomeError):
                raise cause
            case Found.UNBOUND:
                raise RetryableError(f"pod {ref} changed while it was being bound: {cause}") from cause
            case _:
                raise self._end(ref, pod, found) from cause

    async def _find(self, ref: PodRef, node: str, deadline_s: float) -> tuple[Pod, Found]:
        """Read a pod, and evaluate it for binding it to a node.

        Raises:
            Refused: there is no pod of this name.
            GcushareError: it cannot be read.
        """
        try:
            pod = await self._client.read_pod(ref.namespace, ref.name, timeout_s=self.patience_s(deadline_s))
        except NotFoundError as error:
            self._state.pod_deleted(ref.uid)
            raise _gone(ref) from error
        return pod, evaluate(pod, ref.uid, node)

    def _end(self, ref: PodRef, pod: Pod, found: Found) -> Refused:
        """Update the state for a pod that cannot be bound as asked; returns the error for the scheduler."""
        if found is Found.GONE:
            if pod.metadata.uid != ref.uid:
                # A uid is never used again, so this overwrites no later state.
                self._state.pod_deleted(ref.uid)
            return _gone(ref)
        self._apply_read(ref.uid, pod)
        return Refused(f"pod {ref} is bound to node {pod.spec.node_name!r} already")

    def _apply_read(self, key: str, pod: Pod) -> None:
        """Apply a bound pod as it was read, unless the watch has brought it since."""
        if self._state.ledger.is_reserved(key):
            self._state.on_pod_read(pod, self._monotonic())

    async def confirm(self, *, older_than_s: float, busy: Collection[str]) -> None:
        """Read the pods whose reservations stayed unconfirmed for so long, and update the ledger.

        Normally the watch confirms them. This is for outcomes that stayed unknown and events that never came.
        ``busy``: uids with a bind in progress, which settles them itself.
        """
        ledger, now_s = self._state.ledger, self._monotonic()
        for key in [key for key in self._unconfirmed if not ledger.is_reserved(key)]:
            del self._unconfirmed[key]
        due = [
            (key, unconfirmed)
            for key, unconfirmed in self._unconfirmed.items()
            if unconfirmed.attempt.pod.uid not in busy and now_s - unconfirmed.since_s >= older_than_s
        ]
        for start in range(0, len(due), _READS_AT_ONCE):
            some = due[start : start + _READS_AT_ONCE]
            await asyncio.gather(*(self._confirm_one(key, unconfirmed, busy) for key, unconfirmed in some))
        reads = [read for read in self._state.newer_reads.due(now_s, older_than_s) if read.pod.uid not in busy]
        for start in range(0, len(reads), _READS_AT_ONCE):
            await asyncio.gather(*(self._read_again(read) for read in reads[start : start + _READS_AT_ONCE]))

    async def _read_now(self, ref: PodRef) -> Pod | None:
        """Read a pod outside of a bind; None if it is gone, whether or not another pod has its name."""
        try:
            pod = await self._client.read_pod(ref.namespace, ref.name, timeout_s=self._times.attempt_s)
        except NotFoundError:
            return None
        return pod if pod.metadata.uid == ref.uid else None

    async def _confirm_one(self, key: str, unconfirmed: Unconfirmed, busy: Collection[str]) -> None:
        ref, ledger = unconfirmed.attempt.pod, self._state.ledger
        try:
            pod = await self._read_now(ref)
        except GcushareError as error:
            logger.warning("reservation stays unconfirmed %s", fields(pod=ref, reason=error))
            return
        if ref.uid in busy or self._unconfirmed.get(key) is not unconfirmed or not ledger.is_reserved(key):
            return  # A new bind or the watch settled it while the pod was read.
        found = Found.GONE if pod is None else evaluate(pod, ref.uid, unconfirmed.node)
        logger.info("reservation resolved %s", fields(pod=ref, node=unconfirmed.node, found=found.value))
        del self._unconfirmed[key]
        if pod is None:
            self._state.pod_deleted(ref.uid)
        elif pod.is_bound:
            self._state.on_pod_read(pod, self._monotonic())
        ledger.roll_back(key)

    async def _read_again(self, read: NewerRead) -> None:
        """Read a pod again that was read before and that the watch does not confirm."""
        ref, state = read.pod, self._state
        try:
            pod = await self._read_now(ref)
        except GcushareError as error:
            logger.warning("pod newer than the watch cannot be read %s", fields(pod=ref, reason=error))
            return
        if not state.newer_reads.holds(read):
            return  # The watch brought it during the read.
        if pod is None:
            state.pod_deleted(ref.uid)
        elif pod.is_bound and pod.metadata.resource_version != read.watched:
            state.on_pod_read(pod, self._monotonic())
        else:
            # The watch has this version, or the store was restored to a time before the Binding: the watch is right.
            state.pod_deleted(ref.uid)
            state.pod_applied(pod)


def _gone(ref: PodRef) -> Refused:
    return Refused(f"pod {ref} does not exist any more or is being deleted")
