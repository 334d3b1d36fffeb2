"""What connects the plugin to its machine (clock, HTTP port, kubelet, cards) and to the watch of its pods."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from gcushare.cards.ports import CardSource, LimitSource
from gcushare.device_plugin.claims.claim_pods import ClaimPods
from gcushare.device_plugin.kubelet.sockets import KubeletSockets, UnixSockets
from gcushare.device_plugin.node.agent import NodeAgent
from gcushare.device_plugin.pods.reconciler import AllocationsSource
from gcushare.device_plugin.reporting.own_devices import OwnDevicesReport
from gcushare.kube.clock import Clock, SystemClock
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


class OwnPodsHandler:
    """Handles this node's pods, but for the MPS daemon's: the memory of its servers is no pod's use.

    It is known by its label in this program's own namespace; elsewhere any author may write it.
    """

    def __init__(self, observers: Sequence[NodeAgent | ClaimPods | OwnDevicesReport], own_namespace: str) -> None:
        self._observers = observers
        self._own_namespace = own_namespace

    def applied(self, obj: PodWithClaims) -> None:
        """Pass on a pod's newest state."""
        is_component = obj.metadata.labels.get(COMPONENT_LABEL) == MPS_COMPONENT
        if not is_component or obj.metadata.namespace != self._own_namespace:
            for observer in self._observers:
                observer.pod_applied(obj)

    def deleted(self, obj: PodWithClaims) -> None:
        """Pass on a pod that is gone."""
        for observer in self._observers:
            observer.pod_deleted(obj)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Pass on what a full list has."""
        for observer in self._observers:
            observer.pods_retained(uids)
