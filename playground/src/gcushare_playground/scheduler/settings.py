"""What one scheduler double is given: its extenders, and its waiting times."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import msgspec

NAME = "default-scheduler"
"""The ``schedulerName`` of the pods that the double places, and what it calls itself in events."""

UNSCHEDULABLE_S = 300.0
"""kube-scheduler's podMaxInUnschedulablePodsDuration."""


class ManagedResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A resource that brings pods to an extender; ``ignored_by_scheduler`` keeps it out of the scheduler's own sums."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One entry of ``extenders``; it filters; an empty verb is one that it does not have."""

    url_prefix: str
    filter_verb: str
    prioritize_verb: str = ""
    bind_verb: str = ""
    preempt_verb: str = ""
    weight: Annotated[int, msgspec.Meta(gt=0)] = 1
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    http_timeout: Annotated[str, msgspec.Meta(pattern=r"^\d+(ms|s)$")] = "5s"
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    """Empty: the extender is asked for every pod."""
    ignorable: bool = False

    @property
    def http_timeout_s(self) -> float:
        number = float(self.http_timeout.rstrip("ms"))
        return number / 1000 if self.http_timeout.endswith("ms") else number


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """Waiting times in seconds; the defaults are kube-scheduler's."""

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    unschedulable_s: float = UNSCHEDULABLE_S
    """A pod that no event brought back is tried again after this long."""

    def backoff_s(self, attempts: int) -> float:
        """How long a pod waits after this many attempts."""
        # Bounded exponent: a pod may fail thousands of times.
        return min(self.max_backoff_s, self.initial_backoff_s * 2.0 ** min(max(attempts - 1, 0), 30))

    def scaled(self, factor: float) -> Pacing:
        """The same with every backoff multiplied."""
        return replace(
            self, initial_backoff_s=self.initial_backoff_s * factor, max_backoff_s=self.max_backoff_s * factor
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Everything that one scheduler double is given."""

    extenders: tuple[ExtenderSettings, ...] = ()
    pacing: Pacing = field(default_factory=Pacing)
    is_old: bool = False
    """As up to 1.26: annotations of Nodes and a pod's status let no pod be tried again, and one whose call failed waits
    for an event."""

    def with_waits(self, factor: float, unschedulable_s: float) -> SchedulerSettings:
        """The same settings with every backoff multiplied, and another time until an attempt without an event."""
        return replace(self, pacing=replace(self.pacing.scaled(factor), unschedulable_s=unschedulable_s))

    @property
    def ignored_resources(self) -> frozenset[str]:
        """Resources that only the extenders count."""
        return frozenset(
            resource.name
            for extender in self.extenders
            for resource in extender.managed_resources
            if resource.ignored_by_scheduler
        )
