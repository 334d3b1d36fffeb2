"""Reads the Node, decides, and writes the annotation if the Node has not changed meanwhile."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Protocol

from gcushare.cli.cordon.annotation import CordonRequest, decide_annotation
from gcushare.cli.cordon.cordon_settings import CordonSettings
from gcushare.cluster.connection import open_cluster
from gcushare.core.errors import ConflictError, NotFoundError, Refused, RetryableError
from gcushare.core.log_fields import escape
from gcushare.kube.patches import Patch, Precondition, annotations_patch
from gcushare.kube.resources import NODES, Resource
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.vendors import VENDORS_BY_NAME

ATTEMPTS = 5
"""A busy Node is written every few seconds, so five collisions in a row do not happen by chance."""


class NodeClient(Protocol):
    """What a cordon needs of ``KubeClient``."""

    async def get(self, resource: Resource[Any], name: str) -> Any: ...

    async def patch(self, resource: Resource[Any], name: str, patch: Patch) -> Any: ...


async def set_cordon(request: CordonRequest, client: NodeClient) -> str:
    """Carry a request out; returns the resulting state as text. Repeatable.

    Raises:
        Refused, RemoteContractError: as ``decide_annotation``; or there is no such node.
        RetryableError: others kept writing the Node in between.
        ForbiddenError: the caller may not read or change Nodes.
    """
    for _ in range(ATTEMPTS):
        try:
            meta = (await client.get(NODES, request.node)).metadata
        except NotFoundError as error:
            raise Refused(f"there is no node {request.node!r}; `kubectl get nodes` lists them") from error
        annotations, message = decide_annotation(request, meta.annotations)
        if not annotations:
            return message
        unchanged = Precondition(meta.uid or None, meta.resource_version)
        try:
            await client.patch(NODES, meta.name, annotations_patch(annotations, unchanged))
        except ConflictError:
            continue
        return message
    raise RetryableError(f"node {request.node} was changed by others {ATTEMPTS} times in a row; nothing was written")


def _run(settings: CordonSettings, process: ProcessContext, *, is_cordon: bool) -> int:
    vendor = VENDORS_BY_NAME[settings.vendor] if settings.vendor is not None else None
    request = CordonRequest(settings.node, settings.card.strip(), is_cordon, vendor)

    async def work() -> str:
        async with open_cluster(settings.kube, process.environ, program="gcushare-cordon-card") as client:
            return await set_cordon(request, client)

    process.stdout.write(f"{escape(asyncio.run(work()))}\n")
    return DONE


cordon, uncordon = partial(_run, is_cordon=True), partial(_run, is_cordon=False)
"""Run ``gcushare cordon-card`` or ``uncordon-card``; they return the exit code."""
