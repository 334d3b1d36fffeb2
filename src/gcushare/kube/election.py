"""Leader election over one Lease: at most one of several replicas serves, and stops before another may start."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Protocol

from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.errors import UnknownOutcomeError
from gcushare.kube.lease import LeaseTimes, Observation, first_lease, held_spec, observe, released_spec
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import LEASES
from gcushare.wire.objects import Lease, LeaseSpec

logger = logging.getLogger(__name__)


class Tenure(Protocol):
    """The right to act that an election gives for a while; asked before each act, as `LeaderElector` says."""

    def holds(self, margin_s: float) -> bool:
        """Whether no one else can have the right within ``margin_s``, which the act and its effects take."""
        ...


class LeasePort(Protocol):
    """Access to one lease; each call ends within ``timeout_s``, by an answer or an error of ours."""

    name: str
    namespace: str

    async def read(self, timeout_s: float) -> Lease:
        """Read it; ``NotFoundError`` when no one ever made it."""
        ...

    async def create(self, lease: Lease, timeout_s: float) -> Lease:
        """Make it; ``ConflictError`` when someone was faster."""
        ...

    async def write(self, spec: LeaseSpec, resource_version: str, timeout_s: float) -> Lease:
        """Replace its spec; ``ConflictError`` when it is no longer at ``resource_version``."""
        ...


class ApiLease:
    """A lease on the API server. Writes are merge patches with a resourceVersion: fields of others stay."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name

    async def read(self, timeout_s: float) -> Lease:
        """GET the lease."""
        return await self._client.get(LEASES, self.name, namespace=self.namespace, timeout_s=timeout_s)

    async def create(self, lease: Lease, timeout_s: float) -> Lease:
        """POST the lease."""
        return await self._client.create(LEASES, lease, namespace=self.namespace, timeout_s=timeout_s)

    async def write(self, spec: LeaseSpec, resource_version: str, timeout_s: float) -> Lease:
        """PATCH the lease's spec."""
        patch = Patch(PatchKind.MERGE, {"metadata": {"resourceVersion": resource_version}, "spec": spec})
        return await self._client.patch(LEASES, self.name, patch, namespace=self.namespace, timeout_s=timeout_s)


class LeaderElector:
    """One candidate. ``run`` it in a task of its own; ask ``is_leader`` and ``holds`` from anywhere on the loop.

    Invariant: while ``is_leader`` is true no one else that follows the protocol can hold the lease. Both answers are
    computed from the clock when asked, so a loop that stood still, or an API server that does not answer, cannot leave
    a stale "yes" behind.

    ``listener`` is called with true or false from ``run``'s task when leadership was noticed to change, with true again
    at a new ``term``; what it raises ends the elector. ``identity`` must differ between processes, restarts included.

    ``stands`` is asked before each attempt. While it answers false the candidate only looks: it takes nothing, and what
    it holds runs out as if it had been cut off: stepping down so needs no one to wait for requests under way.
    """

    def __init__(
        self,
        lease: LeasePort,
        identity: str,
        *,
        times: LeaseTimes | None = None,
        listener: Callable[[bool], None] | None = None,
        stands: Callable[[], bool] = lambda: True,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._lease = lease
        self.identity = identity
        self._times = times or LeaseTimes()
        self._listener = listener
        self._stands = stands
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._seen: Observation | None = None
        self._renewed_at: float | None = None
        self._announced = 0
        self._writing = False
        self._own_record: tuple[str, int] | None = None
        self.term = 0
        """Counts up with each leadership before which another candidate may have led; 0 before the first."""

    @property
    def is_leader(self) -> bool:
        """Whether this candidate may serve now."""
        return self._remaining_s() > 0

    @property
    def holder(self) -> str:
        """Who holds the lease as far as is known; empty when no one does."""
        return "" if self._seen is None else self._seen.holder

    def holds(self, margin_s: float) -> bool:
        """Whether this candidate leads and no one can take the lease within ``margin_s``.

        Ask it before a bind with the bind request's timeout: then the request has ended, one way or the other, before
        the next leader reads its first list.
        """
        if self._renewed_at is None or not self.is_leader:
            return False
        return self._clock.monotonic() + margin_s < self._renewed_at + self._times.duration_s

    async def run(self) -> None:
        """Stand for election until cancelled; then give the lease up, so that another takes it at its next look.

        Cancel it only after serving has stopped. Failures of the server are logged and tried again.
        """
        try:
            while True:
                try:
                    await self._round()
                except GcushareError as error:
                    facts = fields(lease=self._name, leader=self.is_leader, error=error)
                    logger.warning("lease attempt failed %s", facts)
                self._announce()
                await self._clock.sleep(self._pause_s())
        finally:
            # A write under way when the cancellation came may have made, or kept, this candidate the holder.
            maybe_held = self.is_leader or self._writing
            self._renewed_at = None
            self._announce()
            if maybe_held:
                await self._release()

    async def _round(self) -> None:
        if not self._stands():
            await self._look()
            return
        if self.is_leader and self._seen is not None:
            try:
                await self._take(self._seen)
                return
            except ConflictError:
                # Someone wrote the record: another holder, or only a label. Read it to know.
                pass
            except NotFoundError:
                self._step_down("the lease was deleted")
        await self._stand()

    async def _look(self) -> Observation | None:
        """Read the record; None where there is none."""
        try:
            lease = await self._lease.read(self._timeout_s())
        except NotFoundError:
            return None
        self._seen = observe(self._seen, lease, self._clock.monotonic())
        return self._seen

    async def _stand(self) -> None:
        """Look at the record, and write ourselves into it when it is free, over, or ours already.

        One that was deleted frees nothing: whom it named last goes on leading until its time is over.
        """
        seen = await self._look()
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

    async def _create(self) -> None:
        lease = first_lease(self._lease.name, self._lease.namespace, self.identity, self._times, self._clock.now())
        try:
            await self._win(self._lease.create(lease, self._timeout_s()), None)
        except ConflictError:
            logger.debug("lease created by another in the same moment %s", fields(lease=self._name))

    async def _take(self, seen: Observation) -> None:
        spec = held_spec(seen.lease.spec, self.identity, self._times, self._clock.now())
        write = self._lease.write(spec, seen.lease.metadata.resource_version, self._timeout_s())
        await self._win(write, _record_of(seen.lease) if seen.holder == self.identity else None)

    async def _win(self, write: Awaitable[Lease], own_before: tuple[str, int] | None) -> None:
        """Send a write that makes us the holder; it counts from before it leaves, for others from when they see it.

        ``own_before`` is the record replaced where it was ours: when it is the one that we wrote last, no one has led
        since, however long ago that was.
        ``_writing`` stays set while the outcome is unknown: cut off by a cancellation, or without an answer.
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
                spec = released_spec(lease.spec, self._clock.now())
                await self._lease.write(spec, lease.metadata.resource_version, self._times.retry_s)
        except GcushareError as error:
            logger.warning("lease not released, others wait it out %s", fields(lease=self._name, error=error))

    def _remaining_s(self) -> float:
        """Seconds this candidate may still serve without another renewal; 0 when it does not lead."""
        if self._renewed_at is None:
            return 0.0
        return max(0.0, self._renewed_at + self._times.renew_deadline_s - self._clock.monotonic())

    def _timeout_s(self) -> float:
        """Bound of one request: half the deadline, so that one lost request leaves room for another."""
        longest_s = self._times.renew_deadline_s / 2
        remaining_s = self._remaining_s()
        return min(longest_s, remaining_s) if remaining_s > 0 else longest_s

    def _pause_s(self) -> float:
        # Varied, so that candidates of one moment do not meet again at every turn; never past the own deadline.
        pause_s = self._times.retry_s * self._rng.uniform(0.75, 1.0)
        remaining_s = self._remaining_s()
        return min(pause_s, remaining_s) if remaining_s > 0 else pause_s

    @property
    def _name(self) -> str:
        return f"{self._lease.namespace}/{self._lease.name}"


def _record_of(lease: Lease) -> tuple[str, int]:
    """What tells one leadership from another: the object, and how often its holder has changed."""
    return lease.metadata.uid, lease.spec.lease_transitions or 0
