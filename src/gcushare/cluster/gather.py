"""Gathers a snapshot: from the extender where it answers, else from the API server alone, and says which."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from gcushare.cluster.extender_client import QUICK_S, open_extender
from gcushare.cluster.extender_document import adopt_document
from gcushare.cluster.reading import Progress, Scope, read_nodes, read_pods
from gcushare.cluster.settings import SourceChoice, SourceFlags
from gcushare.cluster.snapshot import ClusterSnapshot, Source
from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.vendors.vendor import Vendor

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """What a snapshot has to show."""

    vendor: Vendor
    scope: Scope
    figures: SourceFlags


async def gather(api: KubeClient, request: SnapshotRequest, progress: Progress) -> ClusterSnapshot:
    """Read what is asked for: the extender's figures, and beside them nodes and pods for all that it does not tell.

    Raises:
        GcushareError: neither source can be read; with a source chosen, that one cannot.
    """
    choice = request.figures.source
    if choice is SourceChoice.API:
        return await gather_from_api(api, request, progress)
    timeout_s = QUICK_S if choice is SourceChoice.AUTO else None
    snapshot = _new_snapshot(request)
    async with open_extender(request.figures, request.vendor, api, timeout_s=timeout_s) as extender:
        document, refused = await asyncio.gather(
            _caught(extender.inspect(request.scope.node)), _read(api, snapshot, request.scope, progress)
        )
    if isinstance(refused.nodes, NotFoundError) or (refused.nodes is not None and request.scope.labels):
        raise refused.nodes
    if isinstance(document, GcushareError):
        if choice is SourceChoice.EXTENDER:
            raise document
        refused.escape()
        snapshot.source = Source("api", "the API server alone", f"{extender.words} was not used: {document}")
        return snapshot
    if refused.nodes is not None:
        snapshot.problems.append(f"addresses and units are missing: {refused.nodes}")
    if refused.pods is not None:
        snapshot.problems.append(f"pods' states and pods that wait are missing: {refused.pods}")
    adopt_document(snapshot, document)
    snapshot.source = Source("extender", extender.words)
    return snapshot


async def gather_from_api(api: KubeClient, request: SnapshotRequest, progress: Progress) -> ClusterSnapshot:
    """Read nodes and pods, and count them here.

    Raises:
        GcushareError: they cannot be read.
    """
    snapshot = _new_snapshot(request)
    (await _read(api, snapshot, request.scope, progress)).escape()
    snapshot.source = Source("api", "the API server")
    return snapshot


@dataclass(frozen=True, slots=True)
class _Refused:
    """What could not be read, None where it could."""

    nodes: GcushareError | None
    pods: GcushareError | None

    def escape(self) -> None:
        """Raise what went wrong."""
        for error in (self.nodes, self.pods):
            if error is not None:
                raise error


async def _read(api: KubeClient, snapshot: ClusterSnapshot, scope: Scope, progress: Progress) -> _Refused:
    """Read nodes and pods: at once, or nodes first where they decide which pods count."""
    if scope.is_partial:
        refused = await _caught(read_nodes(api, snapshot, scope, progress))
        if refused is not None:
            return _Refused(refused, None)
        return _Refused(None, await _caught(read_pods(api, snapshot, scope, progress)))
    nodes, pods = await asyncio.gather(
        _caught(read_nodes(api, snapshot, scope, progress)), _caught(read_pods(api, snapshot, scope, progress))
    )
    return _Refused(nodes, pods)


def _new_snapshot(request: SnapshotRequest) -> ClusterSnapshot:
    return ClusterSnapshot(request.vendor, is_partial=request.scope.is_partial)


async def _caught(work: Awaitable[T]) -> T | GcushareError:
    """Bring an error home as a value, so that what runs beside it comes to its end."""
    try:
        return await work
    except GcushareError as error:
        return error
