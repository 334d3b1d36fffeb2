"""Reads the Node, decides, and writes the annotation, provided that no one wrote the Node meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from gcushare.cli.cordon.annotation import CordonRequest, decide_annotation
from gcushare.cluster.connection import open_cluster
from gcushare.core.errors import ConflictError, NotFoundError, Refused, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Precondition, annotations_patch
from gcushare.kube.resources import NODES
from gcushare.runtime.entry import Surroundings
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings.groups import KubeSettings
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


async def set_cordon(request: CordonRequest, nodes: NodePort) -> str:
    """Carry a request out; returns what is so now. Repeatable.

    Raises:
        Refused, RemoteContractError: as ``decide_annotation``; or there is no such node.
        RetryableError: others kept writing the Node in between.
        ForbiddenError: the caller may not read or change Nodes.
    """
    for _ in range(ATTEMPTS):
        try:
            seen = await nodes.fetch_metadata(request.node)
        except NotFoundError as error:
            raise Refused(f"there is no node {request.node!r}; `kubectl get nodes` lists them") from error
        change = decide_annotation(request, seen.annotations)
        if not change.is_change:
            return change.message
        try:
            await nodes.patch_annotations(seen, {change.annotation: change.value})
        except ConflictError:
            continue
        return change.message
    raise RetryableError(f"node {request.node} was changed by others {ATTEMPTS} times in a row; nothing was written")


def run(request: CordonRequest, kube: KubeSettings, around: Surroundings) -> int:
    """Carry a request out on the cluster of the settings and print what is so now; returns the exit code."""

    async def work() -> str:
        async with open_cluster(kube, around.environ, program="gcushare-cordon-card") as client:
            return await set_cordon(request, ApiNodes(client))

    around.stdout.write(f"{asyncio.run(work())}\n")
    return DONE
