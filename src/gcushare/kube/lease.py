"""What a Lease object means to one candidate: pure, with time as an argument.

Clocks of two machines are never compared. A candidate notes when *it* saw the record change, on its own monotonic
clock, and lets ``lease_duration_seconds`` pass from there; a holder counts from the moment it *sent* its last
successful renewal. The holder's count therefore always ends first, however far the wall clocks are apart.

Source: the election of client-go (tools/leaderelection), whose records these are; both may stand for one lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gcushare.kube.clock import rfc3339_micro
from gcushare.wire.objects import Lease, LeaseSpec, ObjectMeta


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times of an election, in seconds.

    ``duration_s``: how long others wait after the last renewal that they saw. ``renew_deadline_s``: how long a holder
    goes on after the last renewal that it sent. ``retry_s``: between two attempts. The defaults give a takeover within
    about 13 s of a SIGKILL (duration, one look before it and one after), and 3.5 s between the stop of a holder cut off
    from the API server and the next holder's start.
    """

    duration_s: float = 10.0
    renew_deadline_s: float = 6.5
    retry_s: float = 1.0

    def __post_init__(self) -> None:
        if not (self.duration_s >= 1 and self.duration_s == int(self.duration_s)):
            raise ValueError(
                f"duration_s must be whole seconds, at least 1 (the record's unit), got {self.duration_s!r}"
            )
        if not 0 < self.retry_s < self.renew_deadline_s < self.duration_s:
            raise ValueError(
                "expected 0 < retry_s < renew_deadline_s < duration_s, got "
                f"{self.retry_s!r}, {self.renew_deadline_s!r} and {self.duration_s!r}"
            )


@dataclass(frozen=True, slots=True)
class Observation:
    """A lease as last read, and when (monotonic) it was first seen in this state."""

    lease: Lease
    since_s: float

    @property
    def holder(self) -> str:
        """Who holds it by the record; empty when it was released."""
        return self.lease.spec.holder_identity or ""

    def is_over(self, now_s: float) -> bool:
        """Whether the record's holder has lost it: released, or not renewed for its whole duration before our eyes."""
        duration_s = self.lease.spec.lease_duration_seconds or 0
        return self.holder == "" or now_s >= self.since_s + duration_s


def observe(previous: Observation | None, lease: Lease, now_s: float) -> Observation:
    """Take in a lease just read; an unchanged record keeps the time at which it was first seen."""
    if previous is not None and previous.lease.spec == lease.spec and previous.lease.metadata.uid == lease.metadata.uid:
        return Observation(lease, previous.since_s)
    return Observation(lease, now_s)


def first_lease(name: str, namespace: str, identity: str, times: LeaseTimes, now: datetime) -> Lease:
    """Build the lease of a name that no one held before."""
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
    """Build the record that makes ``identity`` the holder: a renewal when it is already, a transition otherwise."""
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
    """Build the record that gives the lease up, so that the next look of anyone takes it."""
    moment = rfc3339_micro(now)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=moment,
        renew_time=moment,
        lease_transitions=current.lease_transitions or 0,
    )
