"""Gathers a picture: from the extender where it answers, else from the API server alone, and says which."""

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
class Wanted:
    """What a picture has to show."""

    vendor: Vendor
    scope: Scope
    figures: SourceFlags


async def gather(api: KubeClient, wanted: Wanted, progress: Progress) -> ClusterSnapshot:
    """Read what is wanted: the extender's figures, and beside them nodes and pods for all that it does not tell.

    Raises:
        GcushareError: neither source can be read; with a source chosen, that one cannot.
    """
    choice = wanted.figures.source
    if choice is SourceChoice.API:
        return await gather_from_api(api, wanted, progress)
    timeout_s = QUICK_S if choice is SourceChoice.AUTO else None
    picture = _new_picture(wanted)
    async with open_extender(wanted.figures, wanted.vendor, api, timeout_s=timeout_s) as extender:
        document, refused = await asyncio.gather(
            _caught(extender.inspect(wanted.scope.node)), _read(api, picture, wanted.scope, progress)
        )
    if isinstance(refused.nodes, NotFoundError) or (refused.nodes is not None and wanted.scope.labels):
        raise refused.nodes
    if isinstance(document, GcushareError):
        if choice is SourceChoice.EXTENDER:
            raise document
        refused.escape()
        picture.source = Source("api", "the API server alone", f"{extender.words} was not used: {document}")
        return picture
    if refused.nodes is not None:
        picture.problems.append(f"addresses and units are missing: {refused.nodes}")
    if refused.pods is not None:
        picture.problems.append(f"pods' states and pods that wait are missing: {refused.pods}")
    adopt_document(picture, document)
    picture.source = Source("extender", extender.words)
    return picture


async def gather_from_api(api: KubeClient, wanted: Wanted, progress: Progress) -> ClusterSnapshot:
    """Read nodes and pods, and count them here.

    Raises:
        GcushareError: they cannot be read.
    """
    picture = _new_picture(wanted)
    (await _read(api, picture, wanted.scope, progress)).escape()
    picture.source = Source("api", "the API server")
    return picture


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


async def _read(api: KubeClient, picture: ClusterSnapshot, scope: Scope, progress: Progress) -> _Refused:
    """Read nodes and pods: at once, or nodes first where they decide which pods count."""
    if scope.is_partial:
        refused = await _caught(read_nodes(api, picture, scope, progress))
        if refused is not None:
            return _Refused(refused, None)
        return _Refused(None, await _caught(read_pods(api, picture, scope, progress)))
    nodes, pods = await asyncio.gather(
        _caught(read_nodes(api, picture, scope, progress)), _caught(read_pods(api, picture, scope, progress))
    )
    return _Refused(nodes, pods)


def _new_picture(wanted: Wanted) -> ClusterSnapshot:
    return ClusterSnapshot(wanted.vendor, is_partial=wanted.scope.is_partial)


async def _caught(work: Awaitable[T]) -> T | GcushareError:
    """Bring an error home as a value, so that what runs beside it comes to its end."""
    try:
        return await work
    except GcushareError as error:
        return error
