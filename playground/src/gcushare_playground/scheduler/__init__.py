"""A scheduler double: behaves like kube-scheduler towards extenders and in a pod's events.

It has kube-scheduler's steps (its own filters, extenders, scores, preemption, asynchronous bind, backoff) and messages,
and uses a real API server connection and real HTTP to extenders. It does not support volumes, affinities, topology,
disruption budgets and plugin configuration. Tests, the demo and the playground may import it; no program does.
"""

from gcushare_playground.scheduler.configuration import load_scheduler_settings
from gcushare_playground.scheduler.scheduler import SchedulerDouble
from gcushare_playground.scheduler.settings import (
    UNSCHEDULABLE_S,
    ExtenderSettings,
    ManagedResource,
    Pacing,
    SchedulerSettings,
)

__all__ = [
    "UNSCHEDULABLE_S",
    "ExtenderSettings",
    "ManagedResource",
    "Pacing",
    "SchedulerDouble",
    "SchedulerSettings",
    "load_scheduler_settings",
]
