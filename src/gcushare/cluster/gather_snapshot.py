"""Gathers a snapshot from the extender if it answers, else from the API server alone."""

from __future__ import annotations

import asyncio

from gcushare.cluster.cluster_flags import SourceChoice, SourceFlags
from gcushare.cluster.extender import QUICK_S, adopt_document, open_extender
from gcushare.cluster.reader import Reader, Scope, claim_texts, error_as_value
from gcushare.cluster.snapshot import ClusterSnapshot, Source
from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.kube.resources import RESOURCE_CLAIMS
from gcushare.vendors.vendor import Vendor
from gcushare.wire.documents.inspect import NodePart
from gcushare.wire.dra.claims import RESOURCE_CLAIM

_WHOLE = Scope()
_FROM_API = SourceFlags(source=SourceChoice.API)


async def gather(
    reader: Reader, vendor: Vendor, scope: Scope = _WHOLE, figures: SourceFlags = _FROM_API
) -> ClusterSnapshot:
    """Read a snapshot: figures from the source that the flags name, all other details from nodes and pods.

    Raises:
        GcushareError: neither source can be read; with a source chosen, that one cannot.
    """
    choice = figures.source
    snapshot = ClusterSnapshot(vendor, is_partial=scope.is_partial, problems=reader.problems)
    reads = (error_as_value(reader.list_nodes(scope)), error_as_value(reader.list_pods(vendor, scope)))
    document: list[NodePart] | GcushareError | None = None
    if choice is SourceChoice.API:
        nodes, pods = await asyncio.gather(*reads)
    else:
        timeout_s = QUICK_S if choice is SourceChoice.AUTO else None
        async with open_extender(figures, vendor, reader.client, timeout_s=timeout_s) as extender:
            document, nodes, pods = await asyncio.gather(error_as_value(extender.inspect(scope.node)), *reads)
        snapshot.source = Source("extender", extender.text)
    if isinstance(document, GcushareError):
        if choice is SourceChoice.EXTENDER and not isinstance(nodes, NotFoundError):
            raise document
        snapshot.source = Source("api", "the API server alone", f"{snapshot.source.text} was not used: {document}")
        document = None
    if isinstance(nodes, GcushareError):
        # Which nodes have the labels is not known, or the node does not exist.
        if document is None or scope.is_partial or isinstance(nodes, NotFoundError):
            raise nodes
        snapshot.problems.append(f"addresses and units are missing: {nodes}")
        nodes = []
    if isinstance(pods, GcushareError):
        if document is None:
            raise pods
        snapshot.problems.append(f"pods' states and pods that wait are missing: {pods}")
        pods = []
    snapshot.count(nodes, pods)
    serves_claims = any(node.serves_claims for node in snapshot.ledger.nodes.values())
    if serves_claims if document is None else snapshot.claims.noted_pods:
        await read_claims(reader, snapshot)
    if document is None:
        snapshot.problems.extend(snapshot.claims.problems.values())
    else:
        adopt_document(snapshot, document)
    return snapshot


async def read_claims(reader: Reader, snapshot: ClusterSnapshot) -> None:
    """Read what claims hold and ask for, of all nodes, because no selector knows the node."""
    try:
        claims = await reader.list_objects(RESOURCE_CLAIMS, RESOURCE_CLAIM.read, texts=claim_texts(snapshot.vendor))
    except GcushareError as error:
        snapshot.problems.append(f"what claims hold and ask for is missing: {error}")
        return
    for claim in claims:
        snapshot.claim_applied(claim)
