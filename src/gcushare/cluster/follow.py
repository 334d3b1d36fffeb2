"""Follows a cluster: pictures as it changes, from the API server's watches or by asking the extender again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from gcushare.cluster.gather import Wanted, gather, gather_from_api
from gcushare.cluster.reading import UNFINISHED, Scope, asking_words, may_ask
from gcushare.cluster.settings import SourceChoice
from gcushare.cluster.snapshot import ClusterSnapshot, Source
from gcushare.core.errors import RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.transport import RequestReport
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import NODES, PODS, Selector
from gcushare.wire.objects import HEAD, NODE, POD, Node, Pod

PAUSE_S = 0.25
"""Changes within this time are shown together: a rollout makes hundreds a second."""


@dataclass(frozen=True, slots=True)
class View:
    """A cluster at one moment. ``trouble`` says why it may be old, empty while it is current."""

    picture: ClusterSnapshot
    trouble: str = ""


class Connection:
    """How the API server has been answering; give ``observe`` to the client that is followed with."""

    def __init__(self) -> None:
        self._refused: dict[str, int] = {}
        self.changed = asyncio.Event()

    def observe(self, report: RequestReport) -> None:
        """Take note of a request's outcome."""
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
        """What is not answered now, empty when all is well."""
        found = (
            f"{resource}: {'no answer' if not code else f'answered {code}'}"
            for resource, code in sorted(self._refused.items())
        )
        return ", ".join(found)


@asynccontextmanager
async def follow(
    api: KubeClient, connection: Connection, wanted: Wanted, interval_s: float
) -> AsyncIterator[AsyncGenerator[View, None]]:
    """Yield views without end: one now, then one after each change.

    The API server's watches are followed unless the extender is asked for by name: its figures are the same, and a
    watch tells at once.

    Raises:
        GcushareError: the first picture cannot be had; later failures become a view's trouble.
    """
    if wanted.figures.source is SourceChoice.EXTENDER:
        views = _poll(api, wanted, interval_s)
        try:
            yield views
        finally:
            await views.aclose()
        return
    # A list that fails is told at once; a reflector would try for ever.
    await gather_from_api(api, wanted, lambda _what, _count: None)
    picture = ClusterSnapshot(wanted.vendor, is_partial=wanted.scope.is_partial)
    picture.source = Source("api", "the API server's watches")
    nodes, pods = _reflectors(api, wanted, picture, connection.changed)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(nodes.run(), name="follow the nodes"),
            group.create_task(pods.run(), name="follow the pods"),
        ]
        views = _after_changes(picture, connection, (nodes.synced, pods.synced))
        try:
            yield views
        finally:
            await views.aclose()
            for task in tasks:
                task.cancel()


async def _poll(api: KubeClient, wanted: Wanted, interval_s: float) -> AsyncGenerator[View, None]:
    picture = await gather(api, wanted, lambda _what, _count: None)
    trouble = ""
    while True:
        yield View(picture, trouble)
        await asyncio.sleep(interval_s)
        try:
            picture, trouble = await gather(api, wanted, lambda _what, _count: None), ""
        except RetryableError as error:
            trouble = str(error)


async def _after_changes(
    picture: ClusterSnapshot, connection: Connection, synced: tuple[asyncio.Event, ...]
) -> AsyncGenerator[View, None]:
    for each in synced:
        await each.wait()
    while True:
        connection.changed.clear()
        yield View(picture, connection.trouble)
        await connection.changed.wait()
        await asyncio.sleep(PAUSE_S)


def _reflectors(
    api: KubeClient, wanted: Wanted, picture: ClusterSnapshot, changed: asyncio.Event
) -> tuple[Reflector[Node], Reflector[_SeenPod]]:
    words = asking_words(wanted.vendor)

    def decode_pod(raw: msgspec.Raw) -> _SeenPod:
        pod = POD.read(raw) if may_ask(raw, words) else None
        return _SeenPod(pod.metadata.uid if pod is not None else HEAD.read(raw).metadata.uid, pod)

    node_selector, pod_selector = _selectors(wanted.scope)
    nodes = Reflector(api, NODES, _NodeSink(picture, changed), decode=NODE.read, selector=node_selector)
    pods = Reflector(api, PODS, _PodSink(picture, changed), decode=decode_pod, selector=pod_selector)
    return nodes, pods


def _selectors(scope: Scope) -> tuple[Selector, Selector]:
    if scope.node is None:
        return Selector(labels=scope.labels), Selector(fields=UNFINISHED)
    return Selector(fields=f"metadata.name={scope.node}"), Selector(fields=f"{UNFINISHED},spec.nodeName={scope.node}")


@dataclass(frozen=True, slots=True)
class _SeenPod:
    """A pod of the watch; ``pod`` is None for one that asks for no card."""

    uid: str
    pod: Pod | None


class _NodeSink:
    """Keeps the picture's nodes."""

    def __init__(self, picture: ClusterSnapshot, changed: asyncio.Event) -> None:
        self._picture = picture
        self._changed = changed
        self._names: dict[str, str] = {}

    def applied(self, obj: Node) -> None:
        self._names[obj.metadata.uid] = obj.metadata.name
        self._picture.see_node(obj)
        self._changed.set()

    def deleted(self, obj: Node) -> None:
        self._names.pop(obj.metadata.uid, None)
        self._picture.lose_node(obj.metadata.name)
        self._changed.set()

    def retained(self, uids: frozenset[str], version: str) -> None:
        gone = {self._names.pop(uid) for uid in self._names.keys() - uids}
        for name in gone - set(self._names.values()):
            self._picture.lose_node(name)
        self._changed.set()


class _PodSink:
    """Keeps the picture's pods."""

    def __init__(self, picture: ClusterSnapshot, changed: asyncio.Event) -> None:
        self._picture = picture
        self._changed = changed

    def applied(self, obj: _SeenPod) -> None:
        if obj.pod is not None:
            self._picture.see_pod(obj.pod)
            self._changed.set()
        elif obj.uid in self._picture.pods:
            self.deleted(obj)

    def deleted(self, obj: _SeenPod) -> None:
        if obj.uid in self._picture.pods:
            self._picture.lose_pod(obj.uid)
            self._changed.set()

    def retained(self, uids: frozenset[str], version: str) -> None:
        for uid in self._picture.pods.keys() - uids:
            self._picture.lose_pod(uid)
        self._changed.set()
