"""What connects the plugin to its machine (clock, HTTP port, kubelet, cards) and to the watch of its pods."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from gcushare.cards.ports import CardSource, LimitSource
from gcushare.device_plugin.kubelet.sockets import KubeletSockets, UnixSockets
from gcushare.device_plugin.node.agent import NodeAgent
from gcushare.device_plugin.pods.reconciler import AllocationsSource
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.collections import WatchHandler
from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.wire.contracts import COMPONENT_LABEL, MPS_COMPONENT
from gcushare.wire.dra.claims import PodWithClaims


@dataclass(frozen=True, slots=True)
class HostAdapters:
    """The machine's own by default. The settings name ``record`` (the kubelet's allocations), ``cards`` and ``limits``
    (the library by which the driver limits memory) if None.
    """

    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random)
    serve: Callable[[web.Application, ServeSettings], Awaitable[RunningServer]] = start_server
    sockets: KubeletSockets = field(default_factory=UnixSockets)
    record: AllocationsSource | None = None
    cards: CardSource | None = None
    limits: LimitSource | None = None


class OwnPodHandler:
    """Passes this node's pods to the agent."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent

    def applied(self, obj: PodWithClaims) -> None:
        """Use a pod's newest state."""
        self._agent.pod_applied(obj)

    def deleted(self, obj: PodWithClaims) -> None:
        """Remove a pod that is gone."""
        self._agent.pod_deleted(obj)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every pod that a full list lacks."""
        self._agent.pods_retained(uids)


class WithoutMpsDaemon:
    """Passes this node's pods on, but for the MPS daemon's: the memory of its servers is no pod's use.

    It is known by its label in this program's own namespace; elsewhere any author may write it.
    """

    def __init__(self, handler: WatchHandler[PodWithClaims], own_namespace: str) -> None:
        self._handler = handler
        self._own_namespace = own_namespace

    def applied(self, obj: PodWithClaims) -> None:
        """Pass on a pod's newest state."""
        is_component = obj.metadata.labels.get(COMPONENT_LABEL) == MPS_COMPONENT
        if not is_component or obj.metadata.namespace != self._own_namespace:
            self._handler.applied(obj)

    def deleted(self, obj: PodWithClaims) -> None:
        """Pass on a pod that is gone."""
        self._handler.deleted(obj)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Pass on what a full list has."""
        self._handler.retained(uids, version)


class PodHandlers:
    """Passes this node's pods to each of several handlers."""

    def __init__(self, *handlers: WatchHandler[PodWithClaims]) -> None:
        self._handlers = handlers

    def applied(self, obj: PodWithClaims) -> None:
        """Pass on a pod's newest state."""
        for each in self._handlers:
            each.applied(obj)

    def deleted(self, obj: PodWithClaims) -> None:
        """Pass on a pod that is gone."""
        for each in self._handlers:
            each.deleted(obj)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Pass on what a full list has."""
        for each in self._handlers:
            each.retained(uids, version)
