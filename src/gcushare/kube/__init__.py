"""The only door to the API server: configuration, client, reflector, leader election and events.

Not a general Kubernetes client: it speaks of the objects in ``gcushare.wire.objects`` and sends the few writes that
this project needs. The programs, the playground and the demo import it; no error of aiohttp, ssl or msgspec passes it.
What only a kubeconfig needs (a YAML reader, ``kubernetes_asyncio`` for older login providers) is imported on first use.
"""

from __future__ import annotations

from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.collections import Sink
from gcushare.kube.connection.config import ConfigSources, KubeConfig, load_config
from gcushare.kube.connection.overrides import Overrides
from gcushare.kube.connection.transport import Limits, Observer, RequestReport
from gcushare.kube.connection.watch_lines import RawWatchEvent
from gcushare.kube.election import ApiLease, LeaderElector, LeasePort, Tenure
from gcushare.kube.errors import (
    AlreadyExistsError,
    GoneError,
    InvalidError,
    UnauthorizedError,
    UnknownOutcomeError,
)
from gcushare.kube.events import EventRecorder, RecorderLimits
from gcushare.kube.lease import LeaseTimes
from gcushare.kube.pacing import Backoff, BackoffPolicy, TokenBucket
from gcushare.kube.patches import Patch, PatchKind, PodIdentity, Precondition
from gcushare.kube.reflector import Reflector, ReflectorCounters, ReflectorSettings
from gcushare.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    EVERYTHING,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
    Selector,
)

__all__ = [
    "CONFIG_MAPS",
    "DEPLOYMENTS",
    "EVENTS",
    "EVERYTHING",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "AlreadyExistsError",
    "ApiLease",
    "Backoff",
    "BackoffPolicy",
    "Clock",
    "ConfigSources",
    "EventRecorder",
    "GoneError",
    "InvalidError",
    "KubeClient",
    "KubeConfig",
    "LeaderElector",
    "LeasePort",
    "LeaseTimes",
    "Limits",
    "Observer",
    "Overrides",
    "Patch",
    "PatchKind",
    "PodIdentity",
    "Precondition",
    "RawWatchEvent",
    "RecorderLimits",
    "Reflector",
    "ReflectorCounters",
    "ReflectorSettings",
    "RequestReport",
    "Resource",
    "Selector",
    "Sink",
    "SystemClock",
    "Tenure",
    "TokenBucket",
    "UnauthorizedError",
    "UnknownOutcomeError",
    "load_config",
]
