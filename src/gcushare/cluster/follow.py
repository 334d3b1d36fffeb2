"""Follows a cluster: snapshots as it changes, from the API server's watches or by asking the extender again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gcushare.cluster.cluster_flags import SourceChoice, SourceFlags
from gcushare.cluster.gather_snapshot import SnapshotRequest, gather
from gcushare.cluster.listing import asking_words, may_ask
from gcushare.cluster.reader import Reader
from gcushare.cluster.snapshot import ClusterSnapshot, Source
from gcushare.core.errors import RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.transport import RequestReport
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from gcushare.wire.dra.claims import RESOURCE_CLAIM, ResourceClaim
from gcushare.wire.objects import HEAD, NODE, POD, Node, Pod

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
    api: KubeClient, connection: Connection, request: SnapshotRequest, interval_s: float
) -> AsyncIterator[AsyncGenerator[LiveSnapshot, None]]:
    """Yield snapshots without end: one now, then one after each change.

    The API server's watches are followed unless the extender is asked for by name: its figures are the same, and a
    watch reports at once.

    Raises:
        GcushareError: the first snapshot cannot be read; later failures become a snapshot's trouble.
    """
    if request.figures.source is SourceChoice.EXTENDER:
        snapshots = _poll(api, request, interval_s)
        try:
            yield snapshots
        finally:
            await snapshots.aclose()
        return
    # A list that fails is an error at once; a reflector would try again without end.
    first = await gather(Reader(api), replace(request, figures=SourceFlags(source=SourceChoice.API)))
    snapshot = ClusterSnapshot(request.vendor, is_partial=request.scope.is_partial)
    snapshot.source = Source("api", "the API server's watches")
    nodes, pods = _reflectors(api, request, snapshot, connection.changed)
    watches: dict[str, Reflector[Any]] = {"nodes": nodes, "pods": pods}
    if first.needs_claims:
        handler = _ClaimHandler(snapshot, connection.changed)
        watches["claims"] = Reflector(api, RESOURCE_CLAIMS, handler, decode=RESOURCE_CLAIM.read)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch.run(), name=f"follow the {name}") for name, watch in watches.items()]
        snapshots = _after_changes(snapshot, connection, tuple(watch.synced for watch in watches.values()))
        try:
            yield snapshots
        finally:
            await snapshots.aclose()
            for task in tasks:
                task.cancel()


async def _poll(api: KubeClient, request: SnapshotRequest, interval_s: float) -> AsyncGenerator[LiveSnapshot, None]:
    snapshot = await gather(Reader(api), request)
    trouble = ""
    while True:
        yield LiveSnapshot(snapshot, trouble)
        await asyncio.sleep(interval_s)
        try:
            snapshot, trouble = await gather(Reader(api), request), ""
        except RetryableError as error:
            trouble = str(error)


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
    api: KubeClient, request: SnapshotRequest, snapshot: ClusterSnapshot, changed: asyncio.Event
) -> tuple[Reflector[Node], Reflector[_WatchedPod]]:
    words = asking_words(request.vendor)

    def decode_pod(raw: msgspec.Raw) -> _WatchedPod:
        pod = POD.read(raw) if may_ask(raw, words) else None
        return _WatchedPod(pod.metadata.uid if pod is not None else HEAD.read(raw).metadata.uid, pod)

    node_selector, pod_selector = request.scope.selectors()
    nodes = Reflector(api, NODES, _NodeHandler(snapshot, changed), decode=NODE.read, selector=node_selector)
    pods = Reflector(api, PODS, _PodHandler(snapshot, changed), decode=decode_pod, selector=pod_selector)
    return nodes, pods


@dataclass(frozen=True, slots=True)
class _WatchedPod:
    """A pod of the watch; ``pod`` is None for one that asks for no card."""

    uid: str
    pod: Pod | None


class _NodeHandler:
    """Updates the snapshot's nodes; see ``kube.reflector`` for what each call means."""

    def __init__(self, snapshot: ClusterSnapshot, changed: asyncio.Event) -> None:
        self._snapshot = snapshot
        self._changed = changed
        self._names: dict[str, str] = {}

    def applied(self, obj: Node) -> None:
        self._names[obj.metadata.uid] = obj.metadata.name
        self._snapshot.update_node(obj)
        self._changed.set()

    def deleted(self, obj: Node) -> None:
        self._names.pop(obj.metadata.uid, None)
        self._snapshot.remove_node(obj.metadata.name)
        self._changed.set()

    def retained(self, uids: frozenset[str], version: str) -> None:
        gone = {self._names.pop(uid) for uid in self._names.keys() - uids}
        for name in gone - set(self._names.values()):
            self._snapshot.remove_node(name)
        self._changed.set()


class _PodHandler:
    def __init__(self, snapshot: ClusterSnapshot, changed: asyncio.Event) -> None:
        self._snapshot = snapshot
        self._changed = changed

    def applied(self, obj: _WatchedPod) -> None:
        if obj.pod is not None:
            self._snapshot.update_pod(obj.pod)
            self._changed.set()
        elif obj.uid in self._snapshot.pods:
            self.deleted(obj)

    def deleted(self, obj: _WatchedPod) -> None:
        if obj.uid in self._snapshot.pods:
            self._snapshot.remove_pod(obj.uid)
            self._changed.set()

    def retained(self, uids: frozenset[str], version: str) -> None:
        for uid in self._snapshot.pods.keys() - uids:
            self._snapshot.remove_pod(uid)
        self._changed.set()


class _ClaimHandler:
    def __init__(self, snapshot: ClusterSnapshot, changed: asyncio.Event) -> None:
        self._snapshot = snapshot
        self._changed = changed

    def applied(self, obj: ResourceClaim) -> None:
        self._snapshot.update_claim(obj)
        self._changed.set()

    def deleted(self, obj: ResourceClaim) -> None:
        self._snapshot.remove_claim(obj.metadata.uid)
        self._changed.set()

    def retained(self, uids: frozenset[str], version: str) -> None:
        self._snapshot.retain_claims(uids)
        self._changed.set()
