"""Reads the Node, decides, and writes the annotation, provided that nobody wrote the Node meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gcushare.cli.cordon.annotation import Wish, decide_marking
from gcushare.core.errors import ConflictError, NotFoundError, Refused, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Precondition, annotations_patch
from gcushare.kube.resources import NODES
from gcushare.wire.objects import ObjectMeta

ATTEMPTS = 5
"""A busy Node is written every few seconds, so five collisions in a row do not happen by chance."""


class NodePort(Protocol):
    """The Node objects, as far as a cordon needs them."""

    async def fetch_metadata(self, node: str) -> ObjectMeta: ...

    async def patch_annotations(self, seen: ObjectMeta, annotations: Mapping[str, str | None]) -> None:
        """Write annotations, or raise ConflictError where the Node is no longer the one that was seen."""
        ...


class ApiNodes:
    """The Nodes of a cluster: a ``NodePort``."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def fetch_metadata(self, node: str) -> ObjectMeta:
        """Read a Node's metadata."""
        return (await self._client.get(NODES, node)).metadata

    async def patch_annotations(self, seen: ObjectMeta, annotations: Mapping[str, str | None]) -> None:
        """Write annotations of exactly the Node that was seen."""
        patch = annotations_patch(annotations, Precondition(seen.uid or None, seen.resource_version))
        await self._client.patch(NODES, seen.name, patch)


async def mark_card(wish: Wish, nodes: NodePort) -> str:
    """Carry a wish out; returns what is so now. Repeatable.

    Raises:
        Refused, RemoteContractError: as ``decide_marking``; or there is no such node.
        RetryableError: others kept writing the Node in between.
        ForbiddenError: the caller may not read or change Nodes.
    """
    for _ in range(ATTEMPTS):
        try:
            seen = await nodes.fetch_metadata(wish.node)
        except NotFoundError as error:
            raise Refused(f"there is no node {wish.node!r}; `kubectl get nodes` lists them") from error
        marking = decide_marking(wish, seen.annotations)
        if not marking.is_change:
            return marking.told
        try:
            await nodes.patch_annotations(seen, {marking.annotation: marking.value})
        except ConflictError:
            continue
        return marking.told
    raise RetryableError(f"node {wish.node} was changed by others {ATTEMPTS} times in a row; nothing was written")
