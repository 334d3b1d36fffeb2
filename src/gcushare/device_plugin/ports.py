"""What the plugin needs of the API server, as small as it is used; the adapters of ``kubernetes`` fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gcushare.core.nodes import PodRef


class NodePatcher(Protocol):
    """Who writes on this node's Node object. None takes an annotation or a resource away."""

    async def patch_annotations(self, annotations: Mapping[str, str | None]) -> None: ...

    async def patch_capacity(self, capacity: Mapping[str, int | None]) -> None: ...


class PodPatcher(Protocol):
    """Who writes on pods: exactly this uid, or a ConflictError. None takes an annotation away."""

    async def patch_record(self, pod: PodRef, annotations: Mapping[str, str | None]) -> None: ...


class Patcher(PodPatcher, NodePatcher, Protocol):
    """Who writes on this node's pods and on its Node."""


class EvictionClient(Protocol):
    """The Eviction API, for exactly this uid."""

    async def evict_pod(self, pod: PodRef) -> None:
        """Ask for the eviction.

        Raises:
            EvictionRefusedError: a disruption budget does not allow it now.
            NotFoundError, ConflictError: the pod is gone.
        """


class Announcer(Protocol):
    """Posts Kubernetes events on this node and on its pods. Never waited for."""

    def about_node(self, reason: str, message: str, *, warning: bool) -> None: ...

    def about_pod(self, pod: PodRef, reason: str, message: str, *, warning: bool) -> None: ...
