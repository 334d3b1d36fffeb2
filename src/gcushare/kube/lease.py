"""How a candidate interprets a Lease object: pure functions, with time as an argument.

Clocks of two machines are never compared. A candidate measures on its own monotonic clock when *it* saw the lease
change, and waits ``lease_duration_seconds`` from then on. A holder counts from the time at which it *sent* its last
successful renewal. So the holder's time always ends first, whatever the wall clocks say.

Source: client-go's leader election (tools/leaderelection), with which this is compatible.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gcushare.core.lease_times import LeaseTimes
from gcushare.kube.clock import rfc3339_micro
from gcushare.wire.objects import Lease, LeaseSpec, ObjectMeta


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


def first_lease(name: str, namespace: str, identity: str, times: LeaseTimes, now: datetime) -> Lease:
    """Build a new lease that we hold."""
    moment = rfc3339_micro(now)
    return Lease(
        api_version="coordination.k8s.io/v1",
        kind="Lease",
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=LeaseSpec(
            holder_identity=identity,
            lease_duration_seconds=int(times.duration_s),
            acquire_time=moment,
            renew_time=moment,
            lease_transitions=0,
        ),
    )


def held_spec(current: LeaseSpec, identity: str, times: LeaseTimes, now: datetime) -> LeaseSpec:
    """Build the spec that makes ``identity`` the holder: a renewal if it is the holder already, else a transition."""
    moment = rfc3339_micro(now)
    renewing = current.holder_identity == identity
    transitions = current.lease_transitions or 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=int(times.duration_s),
        acquire_time=current.acquire_time if renewing else moment,
        renew_time=moment,
        lease_transitions=transitions if renewing else transitions + 1,
    )


def released_spec(current: LeaseSpec, now: datetime) -> LeaseSpec:
    """Build the spec that releases the lease, so that any candidate can take it at once."""
    moment = rfc3339_micro(now)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=moment,
        renew_time=moment,
        lease_transitions=current.lease_transitions or 0,
    )
