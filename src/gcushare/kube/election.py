"""Leader election with a Lease: at most one replica serves, and it stops before another one may start.

How long and how often: ``runtime/settings/election``, of the extender.

Clocks of two machines are never compared. A candidate measures on its own monotonic clock when *it* saw the lease
change, and waits ``lease_duration_seconds`` from then on. A holder counts from the time at which it *sent* its last
successful renewal. So the holder's time always ends first, whatever the wall clocks say.

Source: client-go's leader election (tools/leaderelection), with which this is compatible.
"""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, rfc3339_micro
from gcushare.kube.errors import UnknownOutcomeError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import LEASES
from gcushare.wire.objects import Lease, LeaseSpec, ObjectMeta

logger = logging.getLogger(__name__)


class Tenure(Protocol):
    """The right to act that an election grants for a limited time. Check it before each action; see `LeaderElector`."""

    def holds(self, margin_s: float) -> bool:
        """Whether no other replica can get the right within ``margin_s``, the longest duration of the action."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times of an election, in seconds.

    ``duration_s`` is how long others wait after the last renewal that they saw, ``renew_deadline_s`` how long a holder
    serves after the last renewal that it sent, ``retry_s`` the time between two attempts.
    """

    duration_s: float
    renew_deadline_s: float
    retry_s: float

    def __post_init__(self) -> None:
        if not (self.duration_s >= 1 and self.duration_s == int(self.duration_s)):
            raise ValueError(
                f"duration_s must be whole seconds, at least 1 (the lease's unit), got {self.duration_s!r}"
            )
        if not 0 < self.retry_s < self.renew_deadline_s < self.duration_s:
            raise ValueError(
                "expected 0 < retry_s < renew_deadline_s < duration_s, got "
                f"{self.retry_s!r}, {self.renew_deadline_s!r} and {self.duration_s!r}"
            )


class ApiLease:
    """A lease on the API server. Each call ends within ``timeout_s``, with an answer or one of our errors."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name

    async def read(self, timeout_s: float) -> Lease:
        """Read the lease; ``NotFoundError`` if it does not exist."""
        return await self._client.get(LEASES, self.name, namespace=self.namespace, timeout_s=timeout_s)

    async def create(self, lease: Lease, timeout_s: float) -> Lease:
        """Create the lease; ``ConflictError`` if another candidate was faster."""
        return await self._client.create(LEASES, lease, namespace=self.namespace, timeout_s=timeout_s)

    async def write(self, spec: LeaseSpec, resource_version: str, timeout_s: float) -> Lease:
        """Replace the spec and keep unknown fields; ``ConflictError`` if the lease has another ``resource_version``."""
        patch = Patch(PatchKind.MERGE, {"metadata": {"resourceVersion": resource_version}, "spec": spec})
        return await self._client.patch(LEASES, self.name, patch, namespace=self.namespace, timeout_s=timeout_s)


@dataclass(frozen=True, slots=True)
class Observation:
    """A lease as last read, and the monotonic time at which it was first seen in this state."""

    lease: Lease
    since_s: float

    @property
    def holder(self) -> str:
        """The holder according to the lease; empty if it was released."""
        return self.lease.spec.holder_identity or ""

    def is_over(self, now_s: float) -> bool:
        """Whether the lease was released, or not renewed for its duration since we saw it."""
        duration_s = self.lease.spec.lease_duration_seconds or 0
        return self.holder == "" or now_s >= self.since_s + duration_s


def observe(previous: Observation | None, lease: Lease, now_s: float) -> Observation:
    """Combine a lease just read with the previous observation. An unchanged lease keeps its time."""
    if previous is not None and previous.lease.spec == lease.spec and previous.lease.metadata.uid == lease.metadata.uid:
        return Observation(lease, previous.since_s)
    return Observation(lease, now_s)


def held_spec(current: LeaseSpec | None, identity: str, times: LeaseTimes, now: datetime) -> LeaseSpec:
    """Build the spec that makes ``identity`` the holder of a new lease, or of one that has the ``current`` spec.

    It is a renewal if ``identity`` is the holder already, else a transition.
    """
    moment = rfc3339_micro(now)
    spec = LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=int(times.duration_s),
        acquire_time=moment,
        renew_time=moment,
        lease_transitions=0,
    )
    if current is None:
        return spec
    transitions = current.lease_transitions or 0
    if current.holder_identity != identity:
        return msgspec.structs.replace(spec, lease_transitions=transitions + 1)
    return msgspec.structs.replace(spec, acquire_time=current.acquire_time, lease_transitions=transitions)


def make_identity(rng: random.Random) -> str:
    """A name for this process in a Lease. No other process has it, not even this one after a restart."""
    return f"{socket.gethostname()}_{os.getpid()}_{rng.getrandbits(32):08x}"


class LeaderElector:
    """One candidate. ``run`` it in its own task; any task of the loop may read ``is_leader`` and call ``holds``.

    Invariant: while ``is_leader`` is true, no other candidate that follows the protocol holds the lease. Both answers
    are computed from the clock at each call, so a blocked loop or a silent API server cannot leave a stale "yes".

    ``listener`` is called from ``run``'s task with true or false if leadership has changed, and with true at each new
    ``term``. Its exceptions end the elector. ``identity`` must differ between processes, also after a restart.

    ``stands`` is called before each attempt. While it returns false, the candidate only reads the lease: it does not
    take it, and lets its own leadership expire. Requests under way then have time to end.
    """

    def __init__(
        self,
        lease: ApiLease,
        identity: str,
        *,
        times: LeaseTimes,
        listener: Callable[[bool], None] | None = None,
        stands: Callable[[], bool] = lambda: True,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self._lease = lease
        self.identity = identity
        self._times = times
        self._listener = listener
        self._stands = stands
        self._clock = clock
        self._rng = rng or random.Random()
        self._seen: Observation | None = None
        self._renewed_at: float | None = None
        self._announced = 0
        self._writing = False
        self._own_record: tuple[str, int] | None = None
        self.term = 0
        """Increases with each leadership before which another candidate may have led; 0 before the first."""

    @property
    def is_leader(self) -> bool:
        return self._remaining_s() > 0

    @property
    def holder(self) -> str:
        """The last known holder of the lease; empty if it has none."""
        return "" if self._seen is None else self._seen.holder

    def holds(self, margin_s: float) -> bool:
        """Whether this candidate leads and no other one can take the lease within ``margin_s``.

        Call it before a bind, with the timeout of the bind request. Then the request has succeeded or failed before the
        next leader reads its first list.
        """
        if self._renewed_at is None or not self.is_leader:
            return False
        return self._clock.monotonic() + margin_s < self._renewed_at + self._times.duration_s

    async def run(self) -> None:
        """Take part in the election until cancelled; then release the lease, so that another candidate can take it.

        Cancel it only after serving has stopped. Errors of the server are logged and retried.
        """
        try:
            while True:
                try:
                    await self._round()
                except GcushareError as error:
                    facts = fields(lease=self._name, leader=self.is_leader, error=error)
                    logger.warning("lease attempt failed %s", facts)
                self._announce()
                # Random, so that candidates do not collide in every round, and never past our own deadline.
                pause_s = self._times.retry_s * self._rng.uniform(0.75, 1.0)
                await self._clock.sleep(min(pause_s, self._remaining_s() or pause_s))
        finally:
            # A write that the cancellation interrupted may have made this candidate the holder.
            maybe_held = self.is_leader or self._writing
            self._renewed_at = None
            self._announce()
            if maybe_held:
                await self._release()

    async def _round(self) -> None:
        """Renew the lease; else read it, and take it if it is free, expired or already ours.

        A deleted lease is not free: its last known holder leads until its time has expired.
        """
        if not self._stands():
            await self._read()
            return
        if self.is_leader and self._seen is not None:
            try:
                await self._take(self._seen)
                return
            except ConflictError:
                # Another client changed the lease: its holder, or only a label. Read it to find out.
                pass
            except NotFoundError:
                self._step_down("the lease was deleted")
        seen = await self._read()
        if seen is None:
            last = self._seen
            if last is None or last.holder in ("", self.identity) or last.is_over(self._clock.monotonic()):
                await self._create()
        elif seen.holder == self.identity or seen.is_over(self._clock.monotonic()):
            try:
                await self._take(seen)
            except ConflictError:
                logger.debug("lease taken by another in the same moment %s", fields(lease=self._name))
        elif self.is_leader:
            self._step_down(f"{seen.holder!r} holds it")

    async def _read(self) -> Observation | None:
        try:
            lease = await self._lease.read(self._timeout_s())
        except NotFoundError:
            return None
        self._seen = observe(self._seen, lease, self._clock.monotonic())
        return self._seen

    async def _create(self) -> None:
        lease = Lease(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            metadata=ObjectMeta(name=self._lease.name, namespace=self._lease.namespace),
            spec=held_spec(None, self.identity, self._times, self._clock.now()),
        )
        try:
            await self._win(self._lease.create(lease, self._timeout_s()), None)
        except ConflictError:
            logger.debug("lease created by another in the same moment %s", fields(lease=self._name))

    async def _take(self, seen: Observation) -> None:
        spec = held_spec(seen.lease.spec, self.identity, self._times, self._clock.now())
        write = self._lease.write(spec, seen.lease.metadata.resource_version, self._timeout_s())
        await self._win(write, _record_of(seen.lease) if seen.holder == self.identity else None)

    async def _win(self, write: Awaitable[Lease], own_before: tuple[str, int] | None) -> None:
        """Send a write that makes us the holder. Our time counts from before sending, that of others from reading it.

        ``own_before`` identifies the replaced state if it was ours. If it equals our last write, no other candidate has
        led since then. ``_writing`` stays set while the outcome is unknown, after a cancellation or without an answer.
        """
        sent_at = self._clock.monotonic()
        self._writing = True
        try:
            lease = await write
        except GcushareError as error:
            self._writing = isinstance(error, UnknownOutcomeError)
            raise
        self._writing = False
        if own_before is None or own_before != self._own_record:
            self.term += 1
        self._own_record = _record_of(lease)
        self._renewed_at = sent_at
        self._seen = observe(self._seen, lease, self._clock.monotonic())

    def _step_down(self, why: str) -> None:
        logger.warning("leadership lost %s", fields(lease=self._name, reason=why))
        self._renewed_at = None

    def _announce(self) -> None:
        leading = self.is_leader
        announced = self.term if leading else 0
        if announced == self._announced:
            return
        self._announced = announced
        logger.info("leadership changed %s", fields(lease=self._name, identity=self.identity, leading=leading))
        if self._listener is not None:
            self._listener(leading)

    async def _release(self) -> None:
        try:
            lease = await self._lease.read(self._times.retry_s)
            if lease.spec.holder_identity == self.identity:
                moment = rfc3339_micro(self._clock.now())
                spec = LeaseSpec(
                    holder_identity="",
                    lease_duration_seconds=1,
                    acquire_time=moment,
                    renew_time=moment,
                    lease_transitions=lease.spec.lease_transitions or 0,
                )
                await self._lease.write(spec, lease.metadata.resource_version, self._times.retry_s)
        except GcushareError as error:
            logger.warning("lease not released, others wait it out %s", fields(lease=self._name, error=error))

    def _remaining_s(self) -> float:
        """Seconds for which this candidate may serve without a renewal; 0 if it does not lead."""
        if self._renewed_at is None:
            return 0.0
        return max(0.0, self._renewed_at + self._times.renew_deadline_s - self._clock.monotonic())

    def _timeout_s(self) -> float:
        """The timeout of one request: half the deadline, so that there is time for another after a lost one."""
        longest_s = self._times.renew_deadline_s / 2
        return min(longest_s, self._remaining_s() or longest_s)

    @property
    def _name(self) -> str:
        return f"{self._lease.namespace}/{self._lease.name}"


def _record_of(lease: Lease) -> tuple[str, int]:
    """Identifies one leadership: the object, and how often its holder has changed."""
    return lease.metadata.uid, lease.spec.lease_transitions or 0
