"""Follows a cluster: snapshots as it changes, from the API server's watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from gcushare.cluster.gather_snapshot import gather
from gcushare.cluster.reader import Reader, Scope, asking_texts, may_ask
from gcushare.cluster.snapshot import ClusterSnapshot, Source
from gcushare.cluster.watch_handlers import ClaimHandler, NodeHandler, PodHandler
from gcushare.kube.client import KubeClient
from gcushare.kube.collections import WatchHandler
from gcushare.kube.connection.transport import RequestReport
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from gcushare.vendors.vendor import Vendor
from gcushare.wire.dra.claims import RESOURCE_CLAIM
from gcushare.wire.objects import HEAD, NODE, POD, Pod

PAUSE_S = 0.25
"""Changes within this time are shown together: a rollout makes hundreds a second."""


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """A cluster at one moment. ``trouble`` says why it may be old, empty while it is current."""

    snapshot: ClusterSnapshot
    trouble: str = ""


class Connection:
    """How the API server has been answering; give ``observe`` to the client that is followed with."""

    def __init__(self) -> None:
        self._refused: dict[str, int] = {}
        self.changed = asyncio.Event()

    def observe(self, report: RequestReport) -> None:
        """Record a request's outcome."""
        is_answered = 200 <= report.code < 300
        before = self._refused.get(report.resource, 200)
        if is_answered:
            self._refused.pop(report.resource, None)
        else:
            self._refused[report.resource] = report.code
        if is_answered != (200 <= before < 300):
            self.changed.set()

    @property
    def trouble(self) -> str:
        """What is not answered now, empty if all is answered."""
        found = (
            f"{resource}: {'no answer' if not code else f'answered {code}'}"
            for resource, code in sorted(self._refused.items())
        )
        return ", ".join(found)


@asynccontextmanager
async def follow(
    api: KubeClient, connection: Connection, vendor: Vendor, scope: Scope
) -> AsyncIterator[AsyncGenerator[LiveSnapshot, None]]:
    """Yield snapshots without end, of what the API server's watches bring: one now, then one after each change.

    Raises:
        GcushareError: the first snapshot cannot be read; later failures become a snapshot's trouble.
    """
    # A list that fails is an error at once; a reflector would try again without end.
    first = await gather(Reader(api), vendor, scope)
    snapshot = ClusterSnapshot(vendor, is_partial=scope.is_partial)
    snapshot.source = Source("api", "the API server's watches")
    watches = _reflectors(api, scope, snapshot, connection.changed)
    if not first.needs_claims:
        del watches["claims"]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch.run(), name=f"follow the {name}") for name, watch in watches.items()]
        snapshots = _after_changes(snapshot, connection, tuple(watch.synced for watch in watches.values()))
        try:
            yield snapshots
        finally:
            await snapshots.aclose()
            for task in tasks:
                task.cancel()


async def _after_changes(
    snapshot: ClusterSnapshot, connection: Connection, synced: tuple[asyncio.Event, ...]
) -> AsyncGenerator[LiveSnapshot, None]:
    for each in synced:
        await each.wait()
    while True:
        connection.changed.clear()
        yield LiveSnapshot(snapshot, connection.trouble)
        await connection.changed.wait()
        await asyncio.sleep(PAUSE_S)


def _reflectors(
    api: KubeClient, scope: Scope, snapshot: ClusterSnapshot, changed: asyncio.Event
) -> dict[str, Reflector[Any]]:
    """Return the watches that keep a snapshot current, by what they watch."""
    texts = asking_texts(snapshot.vendor)

    def decode_pod(raw: msgspec.Raw) -> Pod:
        return POD.read(raw) if may_ask(raw, texts) else Pod(metadata=HEAD.read(raw).metadata)

    node_selector, pod_selector = scope.selectors()
    nodes, pods, claims = (_Announced(of([snapshot]), changed) for of in (NodeHandler, PodHandler, ClaimHandler))
    return {
        "nodes": Reflector(api, NODES, nodes, decode=NODE.read, selector=node_selector),
        "pods": Reflector(api, PODS, pods, decode=decode_pod, selector=pod_selector),
        "claims": Reflector(api, RESOURCE_CLAIMS, claims, decode=RESOURCE_CLAIM.read),
    }


@dataclass(slots=True)
class _Announced:
    """Passes everything on to ``handler``, and says that something may have changed."""

    handler: WatchHandler[Any]
    changed: asyncio.Event

    def applied(self, obj: Any) -> None:
        self.handler.applied(obj)
        self.changed.set()

    def deleted(self, obj: Any) -> None:
        self.handler.deleted(obj)
        self.changed.set()

    def retained(self, uids: frozenset[str], version: str) -> None:
        self.handler.retained(uids, version)
        self.changed.set()
