"""Gathers a snapshot from the extender if it answers, else from the API server alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypeVar

from gcushare.cluster.cluster_flags import SourceChoice, SourceFlags
from gcushare.cluster.extender import QUICK_S, adopt_document, open_extender
from gcushare.cluster.listing import Scope
from gcushare.cluster.reader import Reader, error_as_value
from gcushare.cluster.snapshot import ClusterSnapshot, Source
from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.vendors.vendor import Vendor

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """What a snapshot must show, and from which source."""

    vendor: Vendor
    scope: Scope = field(default_factory=Scope)
    figures: SourceFlags = field(default_factory=lambda: SourceFlags(source=SourceChoice.API))


async def gather(reader: Reader, request: SnapshotRequest) -> ClusterSnapshot:
    """Read a snapshot: figures from the extender, all other details from nodes and pods.

    Raises:
        GcushareError: neither source can be read; with a source chosen, that one cannot.
    """
    vendor, scope, choice = request.vendor, request.scope, request.figures.source
    snapshot = ClusterSnapshot(vendor, is_partial=scope.is_partial, problems=reader.problems)
    reads = (error_as_value(reader.list_nodes(scope)), error_as_value(reader.list_pods(vendor, scope)))
    if choice is SourceChoice.API:
        nodes, pods = await asyncio.gather(*reads)
        snapshot.count(_raised(nodes), _raised(pods))
        await _count_claims(reader, snapshot)
        return snapshot
    timeout_s = QUICK_S if choice is SourceChoice.AUTO else None
    async with open_extender(request.figures, vendor, reader.client, timeout_s=timeout_s) as extender:
        document, nodes, pods = await asyncio.gather(error_as_value(extender.inspect(scope.node)), *reads)
    if isinstance(document, GcushareError):
        if isinstance(nodes, NotFoundError):
            raise nodes
        if choice is SourceChoice.EXTENDER:
            raise document
        snapshot.count(_raised(nodes), _raised(pods))
        await _count_claims(reader, snapshot)
        snapshot.source = Source("api", "the API server alone", f"{extender.text} was not used: {document}")
        return snapshot
    if isinstance(nodes, GcushareError):
        # Which nodes have the labels is not known, or the node does not exist.
        if scope.labels or isinstance(nodes, NotFoundError):
            raise nodes
        snapshot.problems.append(f"addresses and units are missing: {nodes}")
        nodes = []
    if isinstance(pods, GcushareError):
        snapshot.problems.append(f"pods' states and pods that wait are missing: {pods}")
        pods = []
    snapshot.count(nodes, pods, is_counted=False)
    adopt_document(snapshot, document)
    snapshot.source = Source("extender", extender.text)
    return snapshot


async def _count_claims(reader: Reader, snapshot: ClusterSnapshot) -> None:
    """Count what claims hold. Claims are listed only if a node serves claims."""
    if not snapshot.needs_claims:
        return
    try:
        claims = await reader.list_claims(snapshot.vendor)
    except GcushareError as error:
        snapshot.problems.append(f"what claims hold is missing: {error}")
        return
    for claim in claims:
        snapshot.update_claim(claim)
    snapshot.problems.extend(snapshot.claims.problems.values())


def _raised(found: T | GcushareError) -> T:
    if isinstance(found, GcushareError):
        raise found
    return found
