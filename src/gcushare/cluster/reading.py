"""Reads nodes and pods from the API server into a snapshot, page by page; only what was asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.errors import RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.errors import GoneError
from gcushare.kube.resources import NODES, PODS, Resource, Selector
from gcushare.vendors.vendor import Vendor
from gcushare.wire.foreign import JsonDoor
from gcushare.wire.objects import HEAD, NODE, POD, Pod

T = TypeVar("T")

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"

Progress = Callable[[str, int], None]
"""Told what is being read and how many came."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which nodes: all, one by name, or those with these labels."""

    node: str | None = None
    labels: str = ""

    @property
    def is_partial(self) -> bool:
        return self.node is not None or bool(self.labels)


async def read_nodes(client: KubeClient, snapshot: ClusterSnapshot, scope: Scope, progress: Progress) -> None:
    """Read the nodes of the scope; one that cannot be read is told as a problem.

    Raises:
        NotFoundError: the one node that was named does not exist.
    """
    if scope.node is not None:
        snapshot.see_node(await client.get(NODES, scope.node))
        return
    count = 0
    async with aclosing(list_items(client, NODES, Selector(labels=scope.labels))) as items:
        async for raw in items:
            count += 1
            node = _decoded(NODE, raw, "node", snapshot)
            if node is not None:
                snapshot.see_node(node)
            progress("nodes", count)


async def read_pods(client: KubeClient, snapshot: ClusterSnapshot, scope: Scope, progress: Progress) -> None:
    """Read every unfinished pod that may hold or want cards of the scope's nodes."""
    fields = UNFINISHED if scope.node is None else f"{UNFINISHED},spec.nodeName={scope.node}"
    words = asking_words(snapshot.vendor)
    count = 0
    async with aclosing(list_items(client, PODS, Selector(fields=fields))) as items:
        async for raw in items:
            count += 1
            progress("pods", count)
            pod = _decoded(POD, raw, "pod", snapshot) if may_ask(raw, words) else None
            if pod is not None and _is_of_scope(pod, snapshot):
                snapshot.see_pod(pod)


def _is_of_scope(pod: Pod, snapshot: ClusterSnapshot) -> bool:
    return not (snapshot.is_partial and pod.is_bound and pod.spec.node_name not in snapshot.nodes)


def asking_words(vendor: Vendor) -> tuple[bytes, ...]:
    """What stands in the JSON of every pod that asks for cards of this vendor: its resources, after the slash.

    The slash itself may be escaped in JSON.
    """
    return tuple(name.rpartition("/")[2].encode() for name in (vendor.memory_resource, vendor.whole_card_resource))


def may_ask(raw: msgspec.Raw, words: tuple[bytes, ...]) -> bool:
    """Whether a pod is worth decoding: most of a cluster's are not, and a search is many times faster."""
    text = bytes(raw)
    return any(word in text for word in words)


async def list_items(
    client: KubeClient, resource: Resource[Any], selector: Selector
) -> AsyncGenerator[msgspec.Raw, None]:
    """Yield a collection's items; where the pages outlive the server's memory of them, all again at once."""
    try:
        async with aclosing(client.pages(resource, selector)) as pages:
            async for page in pages:
                for raw in page.entries:
                    yield raw
        return
    except GoneError:
        pass  # what was yielded is yielded again: readers keep objects by their names
    async with aclosing(client.pages(resource, selector, page_size=None)) as whole:
        async for page in whole:
            for raw in page.entries:
                yield raw


def _decoded(door: JsonDoor[T], raw: msgspec.Raw, kind: str, snapshot: ClusterSnapshot) -> T | None:
    try:
        return door.read(raw)
    except RemoteContractError as error:
        snapshot.problems.append(f"{kind} {_name_of(raw)} cannot be read: {error}")
        return None


def _name_of(raw: msgspec.Raw) -> str:
    try:
        meta = HEAD.read(raw).metadata
    except RemoteContractError as error:
        raise RemoteContractError(f"an object of a list has no readable metadata: {error}") from error
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
