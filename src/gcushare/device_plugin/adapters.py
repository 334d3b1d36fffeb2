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
from gcushare.device_plugin.reporting.own_devices import OwnDevicesReport
from gcushare.kube.clock import Clock, SystemClock
from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.settings.serving import ServeSettings
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
    """Passes this node's pods to the agent, and to ``own_devices`` if these are reported."""

    def __init__(self, agent: NodeAgent, own_devices: OwnDevicesReport | None) -> None:
        self._agent = agent
        self._own_devices = own_devices

    def applied(self, obj: PodWithClaims) -> None:
        """Use a pod's newest state."""
        self._agent.pod_applied(obj)
        if self._own_devices is not None:
            self._own_devices.pod_applied(obj)

    def deleted(self, obj: PodWithClaims) -> None:
        """Remove a pod that is gone."""
        self._agent.pod_deleted(obj)
        if self._own_devices is not None:
            self._own_devices.pod_deleted(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every pod that a full list lacks."""
        self._agent.pods_retained(uids)
        if self._own_devices is not None:
            self._own_devices.pods_retained(uids)
