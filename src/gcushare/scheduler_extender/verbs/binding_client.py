"""Carry reserved bindings out: send the Binding, know what became of it, and settle what was not confirmed.

A Binding whose outcome is unknown is never guessed: the pod is read. Until reading or the watch has decided, the units
stay reserved, whoever asks again meanwhile and whatever else fails. A pod is bound once, permanently, so sending the
same Binding again is harmless.

What was read is taken only while the reservation stands. It ends when the watch brings the pod, and the watch may
have brought a later state than an answer that was longer on its way. Once taken, it stands until the watch comes to the
version that was read; where the watch does not in time, the pod is read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gcushare.core.errors import ConflictError, GcushareError, NotFoundError, Refused, RetryableError
from gcushare.core.nodes import Assignment
from gcushare.kube.errors import UnknownOutcomeError
from gcushare.kube.patches import PodIdentity
from gcushare.runtime.logs import fields
from gcushare.scheduler_extender.ports import Leadership, PodApi
from gcushare.scheduler_extender.state.reads_ahead import ReadAhead
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind_outcome import BindTimes, Found, NotLeader, evaluate
from gcushare.wire.objects import Pod

log = logging.getLogger(__name__)

_FIRST_WAIT_S = 0.05
_CAP_WAIT_S = 0.5
_READS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Attempt:
    """A reservation to be made true, and the record that its Binding carries."""

    identity: PodIdentity
    assignment: Assignment
    annotations: dict[str, str]


@dataclass(slots=True, eq=False)
class _Errand:
    """An attempt on its way. ``version``: where the pod last stood, as far as is known; a Binding is for that pod."""

    attempt: Attempt
    version: str
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A reservation whose binding ended here and that the watch has not confirmed yet."""

    attempt: Attempt
    is_acknowledged: bool
    since_s: float

    @property
    def node(self) -> str:
        return self.attempt.assignment.node


class BindingClient:
    """Sends Bindings for one vendor; the ledger follows their outcomes."""

    def __init__(
        self, state: VendorState, api: PodApi, leadership: Leadership, times: BindTimes, monotonic: Callable[[], float]
    ) -> None:
        self._state = state
        self._api = api
        self._leadership = leadership
        self._times = times
        self._monotonic = monotonic
        self._unsettled: dict[str, Unsettled] = {}
        """By the key of the reservation: the pod's uid, or another where it was set aside."""
        self.conflicts = 0
        """Bindings that the API server refused because the pod had changed, for metrics."""
        self.unknown_outcomes = 0
        """Bindings whose outcome had to be read, for metrics."""

    def check_leader(self) -> None:
        """Make sure that this replica may send.

        Raises:
            NotLeader: it may not, or its time is too short: a request that leaves now must have ended, here and at the
                API server, before another replica may begin to serve.
        """
        if not self._leadership.holds(self._times.attempt_s):
            raise NotLeader(
                f"this replica does not serve; the leader is {self._leadership.holder or 'not elected yet'}"
            )

    def patience_s(self, deadline_s: float) -> float:
        """How long one request may take that has to be over by ``deadline_s``."""
        return max(0.001, min(self._times.attempt_s, deadline_s - self._monotonic()))

    def unsettled(self, uid: str) -> Unsettled | None:
        """What an earlier call left of a pod: its Binding was done, or may still take effect."""
        found = self._unsettled.get(uid)
        return found if found is not None and self._state.ledger.is_reserved(uid) else None

    def park(self, uid: str) -> None:
        """Keep a doubtful reservation beside a new one: the pod may turn out to be bound where it was sent first."""
        self._unsettled[self._state.ledger.park(uid)] = self._unsettled.pop(uid)

    def unpark(self, uid: str, node: str) -> Unsettled | None:
        """Have a reservation that was set aside again under the pod's uid; None where there is none on this node."""
        key = self._state.ledger.unpark(uid, node)
        if key is None:
            return None
        found = self._unsettled[uid] = self._unsettled.pop(key)
        return found

    async def look(self, unsettled: Unsettled, deadline_s: float) -> None:
        """Find out what became of a doubtful Binding before the pod is bound elsewhere; returns when it is unbound.

        Raises:
            Refused: it is bound, or gone.
            GcushareError: that cannot be read now; everything stays as it is.
        """
        identity = unsettled.attempt.identity
        pod, found = await self._find(identity, unsettled.node, deadline_s)
        if found is not Found.UNBOUND:
            raise self._end(identity, pod, found)

    async def send(self, attempt: Attempt, deadline_s: float, *, version: str, is_doubtful: bool) -> None:
        """Send a Binding until its outcome is known or the time is up.

        ``version``: the pod's, from before this call. A Binding that leaves this process late, because the process was
        paused, does nothing to a pod that has changed since; the API server sees to that.
        ``is_doubtful``: the same Binding was sent before, with unknown outcome.
        """
        wait_s, is_sure = _FIRST_WAIT_S, not is_doubtful
        errand = _Errand(attempt, version, deadline_s)
        try:
            while True:
                try:
                    await self._send_once(errand)
                    break
                except RetryableError as error:
                    is_sure = is_sure and not isinstance(error, UnknownOutcomeError)
                    if isinstance(error, NotLeader) or self._monotonic() + wait_s >= deadline_s:
                        raise
                await asyncio.sleep(wait_s)
                wait_s = min(_CAP_WAIT_S, wait_s * 2)
        except Refused:
            self._state.ledger.roll_back(attempt.identity.uid)  # The pod was read, or there is none.
            raise
        except GcushareError:
            self._leave(attempt, is_sure=is_sure)
            raise
        except BaseException:
            self._leave(attempt, is_sure=False)  # It is unknown how far it came.
            raise
        self._state.ledger.drop_aside(attempt.identity.uid)  # Bound here, so nowhere else.
        self._note(attempt, is_acknowledged=True)

    def _leave(self, attempt: Attempt, *, is_sure: bool) -> None:
        """End without success. Where a Binding may still take effect, its reservation stays until that is known."""
        if is_sure:
            self._state.ledger.roll_back(attempt.identity.uid)
        else:
            self._note(attempt, is_acknowledged=False)

    def _note(self, attempt: Attempt, *, is_acknowledged: bool) -> None:
        uid = attempt.identity.uid
        if self._state.ledger.is_reserved(uid):
            self._unsettled[uid] = Unsettled(attempt, is_acknowledged, self._monotonic())

    async def _send_once(self, errand: _Errand) -> None:
        """Send the Binding once and, where the answer does not say what became of it, read the pod."""
        attempt = errand.attempt
        try:
            self.check_leader()
            await self._api.bind_pod(
                attempt.identity,
                attempt.assignment.node,
                attempt.annotations,
                resource_version=errand.version,
                timeout_s=self.patience_s(errand.deadline_s),
            )
        except NotFoundError as error:
            raise _gone(attempt.identity) from error
        except ConflictError as error:
            self.conflicts += 1
            await self._resolve(errand, error)
        except UnknownOutcomeError as error:
            self.unknown_outcomes += 1
            await self._resolve(errand, error)

    async def _resolve(self, errand: _Errand, cause: GcushareError) -> None:
        """Read the pod after an answer that leaves its state open; returns when it is bound as we asked."""
        identity = errand.attempt.identity
        try:
            pod, found = await self._find(identity, errand.attempt.assignment.node, errand.deadline_s)
        except Refused:
            raise
        except GcushareError as error:
            raise UnknownOutcomeError(f"{cause}; reading the pod failed as well: {error}") from error
        errand.version = pod.metadata.resource_version
        match found:
            case Found.AS_ASKED:
                self._take(identity.uid, pod)
            case Found.UNBOUND if isinstance(cause, UnknownOutcomeError):
                raise cause
            case Found.UNBOUND:
                raise RetryableError(f"pod {_name(identity)} changed while it was being bound: {cause}") from cause
            case _:
                raise self._end(identity, pod, found) from cause

    async def _find(self, identity: PodIdentity, node: str, deadline_s: float) -> tuple[Pod, Found]:
        """Read a pod, and say what that means for binding it to a node.

        Raises:
            Refused: there is no pod of this name.
            GcushareError: it cannot be read.
        """
        try:
            pod = await self._read(identity, deadline_s)
        except NotFoundError as error:
            self._state.lose_pod(identity.uid)
            raise _gone(identity) from error
        return pod, evaluate(pod, identity.uid, node)

    async def _read(self, identity: PodIdentity, deadline_s: float) -> Pod:
        return await self._api.read_pod(identity.namespace, identity.name, timeout_s=self.patience_s(deadline_s))

    def _end(self, identity: PodIdentity, pod: Pod, found: Found) -> Refused:
        """Follow a pod that cannot be bound where we want it; returns what the scheduler gets."""
        if found is Found.GONE:
            if pod.metadata.uid != identity.uid:
                # A uid does not come back, so no later state of it can be overwritten.
                self._state.lose_pod(identity.uid)
            return _gone(identity)
        self._take(identity.uid, pod)
        return Refused(f"pod {_name(identity)} is bound to node {pod.spec.node_name!r} already")

    def _take(self, key: str, pod: Pod) -> None:
        """Take a bound pod as it was read, unless the watch has brought it since."""
        if self._state.ledger.is_reserved(key):
            self._state.take_read(pod, self._monotonic())

    async def settle(self, *, older_than_s: float, busy: Collection[str]) -> None:
        """Read the pods whose reservations were not confirmed for so long, and make the ledger follow what they say.

        The watch settles all others first; this is for outcomes that stayed unknown and events that never came.
        ``busy``: uids that are being bound; that decides about them.
        """
        ledger, now_s = self._state.ledger, self._monotonic()
        for key in [key for key in self._unsettled if not ledger.is_reserved(key)]:
            del self._unsettled[key]
        due = [
            (key, unsettled)
            for key, unsettled in self._unsettled.items()
            if unsettled.attempt.identity.uid not in busy and now_s - unsettled.since_s >= older_than_s
        ]
        for start in range(0, len(due), _READS_AT_ONCE):
            some = due[start : start + _READS_AT_ONCE]
            await asyncio.gather(*(self._settle_one(key, unsettled, busy) for key, unsettled in some))
        ahead = [read for read in self._state.ahead.due(now_s, older_than_s) if read.identity.uid not in busy]
        for start in range(0, len(ahead), _READS_AT_ONCE):
            await asyncio.gather(*(self._read_again(read) for read in ahead[start : start + _READS_AT_ONCE]))

    async def _settle_one(self, key: str, unsettled: Unsettled, busy: Collection[str]) -> None:
        identity, ledger = unsettled.attempt.identity, self._state.ledger
        pod: Pod | None = None
        try:
            pod = await self._read(identity, self._monotonic() + self._times.attempt_s)
            found = evaluate(pod, identity.uid, unsettled.node)
        except NotFoundError:
            found = Found.GONE
        except GcushareError as error:
            log.warning("reservation stays unsettled %s", fields(pod=_name(identity), reason=error))
            return
        if identity.uid in busy or self._unsettled.get(key) is not unsettled or not ledger.is_reserved(key):
            return  # The scheduler asked again, or the watch brought it, while the pod was read: that decides.
        log.info("reservation settled %s", fields(pod=_name(identity), node=unsettled.node, found=found.value))
        del self._unsettled[key]
        if pod is None or pod.metadata.uid != identity.uid:
            self._state.lose_pod(identity.uid)
        elif pod.is_bound:
            self._state.take_read(pod, self._monotonic())
        ledger.roll_back(key)

    async def _read_again(self, read: ReadAhead) -> None:
        """Look again at a pod that was read and that the watch does not confirm."""
        identity, state = read.identity, self._state
        pod: Pod | None = None
        try:
            pod = await self._read(identity, self._monotonic() + self._times.attempt_s)
        except NotFoundError:
            pass  # As when another pod has its name.
        except GcushareError as error:
            log.warning("pod ahead of the watch cannot be read %s", fields(pod=_name(identity), reason=error))
            return
        if not state.ahead.holds(read):
            return  # The watch brought it while it was read.
        if pod is None or pod.metadata.uid != identity.uid:
            state.lose_pod(identity.uid)
        elif pod.is_bound and pod.metadata.resource_version != read.watched:
            state.take_read(pod, self._monotonic())
        else:
            # The watch brought the same, or the store went back to a time before the Binding: the watch is right again.
            state.lose_pod(identity.uid)
            state.see_pod(pod)


def _gone(identity: PodIdentity) -> Refused:
    return Refused(f"pod {_name(identity)} does not exist any more or is being deleted")


def _name(identity: PodIdentity) -> str:
    return f"{identity.namespace}/{identity.name}"
