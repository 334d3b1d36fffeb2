"""What the plugin reaches of its machine: time, chance, its HTTP port, the kubelet and the cards."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from gcushare.cards.ports import CardSource
from gcushare.device_plugin.kubelet.sockets import KubeletSockets, UnixSockets
from gcushare.device_plugin.pods.reconciler import AllocationsSource
from gcushare.kube.clock import Clock, SystemClock
from gcushare.runtime.http.server import RunningServer, start_server
from gcushare.runtime.settings.serving import ServeSettings


class AllocationsReader(AllocationsSource, Protocol):
    """Reads the kubelet's allocations; `kubelet.podresources.PodResourcesReader` is one."""

    async def close(self) -> None:
        """Give everything back."""
        ...


@dataclass(frozen=True, slots=True)
class HostAdapters:
    """The machine's own by default. ``record`` and ``cards`` are those that the settings name where None."""

    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random)
    serve: Callable[[web.Application, ServeSettings], Awaitable[RunningServer]] = start_server
    sockets: KubeletSockets = field(default_factory=UnixSockets)
    record: AllocationsReader | None = None
    cards: CardSource | None = None
