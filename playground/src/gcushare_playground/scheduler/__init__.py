"""A scheduler double: kube-scheduler as an extender and the reader of a pod's events meet it.

It keeps kube-scheduler's order of things (own filters, extenders, scores, asynchronous bind, backoff) and
its words, over a real API server connection and real HTTP to extenders. It is no kube-scheduler: volumes, topology,
preemption and plugin configuration are not modelled. Tests, the demo and the playground may import it; no program does.
"""

from gcushare_playground.scheduler.configuration import load_scheduler_settings, parse_scheduler_settings
from gcushare_playground.scheduler.extender import Extender, ExtenderError
from gcushare_playground.scheduler.scheduler import SchedulerDouble
from gcushare_playground.scheduler.settings import (
    UNSCHEDULABLE_S,
    ExtenderSettings,
    ExtenderTls,
    ManagedResource,
    Pacing,
    SchedulerSettings,
)

__all__ = [
    "UNSCHEDULABLE_S",
    "Extender",
    "ExtenderError",
    "ExtenderSettings",
    "ExtenderTls",
    "ManagedResource",
    "Pacing",
    "SchedulerDouble",
    "SchedulerSettings",
    "load_scheduler_settings",
    "parse_scheduler_settings",
]
