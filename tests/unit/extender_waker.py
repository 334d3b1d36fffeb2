"""One vendor's filter and waker on virtual time, and the API server as they meet it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from gcushare.scheduler_extender.extender_settings import NamedNodes
from gcushare.scheduler_extender.state.scheduling_request import read_scheduling_request
from gcushare.scheduler_extender.verbs.filter import FilterService
from gcushare.scheduler_extender.waking.waker import RoomWaker
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import ROOM_FOUND
from gcushare.wire.extender_api import FilterDecoder
from gcushare.wire.objects import Pod
from tests.extender_objects import a_node, a_pod, filter_body, on_card, pod_document, state_of
from tests.played_api import Asked, PlayedApi
from tests.running import running
from tests.unit.kube_time import VirtualTime

SOON_S = 2.0
"""What is promised: a pod that fits is asked about again within this time."""


class Written(PlayedApi):
    """Takes what is noted on pods; ``error`` befalls the next notes."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.moments: list[str | None] = []
        self.error: Exception | None = None

    async def answer(self, asked: Asked) -> Pod:
        assert asked.timeout_s
        if self.error is not None:
            raise self.error
        self.pods.append(asked.name)
        self.moments.append(asked.annotations[ROOM_FOUND])
        return Pod()


class Bench:
    """One vendor's filter and waker on virtual time."""

    def __init__(self, *sizes: int, nodes: int = 1) -> None:
        self.names = [f"node-{number}" for number in range(1, nodes + 1)]
        self.time = VirtualTime()
        self.state = state_of(*(a_node(name, *sizes) for name in self.names), monotonic=self.time.clock().monotonic)
        self.api = Written()
        self.serves = True
        self.waker = RoomWaker(self.state, self.api.client, lambda: self.serves, clock=self.time.clock())
        self.filters = FilterService(
            self.state, named=NamedNodes(20), refusals=self.waker.on_refused, offers=self.waker.on_offered
        )
        self._ages = count()

    @classmethod
    def filled(cls) -> Bench:
        """One node of one card, and a pod that has all of it."""
        bench = cls(16)
        bench.hold("x", 16)
        return bench

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with running(self.waker.run(), "waker"):
            await self.time.pass_(0.3)
            yield

    def hold(self, name: str, units: int, node: str = "node-1", card: int = 0, **options: Any) -> None:
        """Let a pod hold units."""
        self.state.pod_applied(a_pod(name, units, node=node, record=on_card(card, units), **options))

    def end(self, name: str) -> None:
        self.state.pod_deleted(f"uid-{name}")

    def create(self, name: str, units: int, **options: Any) -> None:
        options.setdefault("creationTimestamp", f"2026-01-01T00:{next(self._ages):02d}:00Z")
        self.state.pod_applied(a_pod(name, units, **options))

    def ask(self, name: str, units: int, among: Sequence[str] | None = None, **options: Any) -> str:
        """Ask as kube-scheduler does; returns what filter says."""
        options.setdefault("creationTimestamp", f"2026-01-01T00:{next(self._ages):02d}:00Z")
        pod = a_pod(name, units, **options)
        if f"uid-{name}" not in self.state.waiting:
            self.state.pod_applied(pod)
        known = self.state.find_request(f"uid-{name}") or read_scheduling_request(pod, ENFLAME, self.state.policies)
        body = filter_body(pod_document(name, units, **options), among or self.names)
        return self.filters.filter(FilterDecoder().decode(body), known).result

    async def pass_(self, seconds: float) -> list[str]:
        """Let time pass; returns who was written to meanwhile, sorted."""
        before = len(self.api.pods)
        await self.time.pass_(seconds)
        return sorted(self.api.pods[before:])
