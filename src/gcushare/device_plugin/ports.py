"""What the plugin alone needs of the API server, as small as it is used; ``api_server`` has the adapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gcushare.node.api_server import PodPatcher


class NodePatcher(Protocol):
    """Who writes on this node's Node object. None takes an annotation or a resource away."""

    async def patch_annotations(self, annotations: Mapping[str, str | None]) -> None: ...

    async def patch_capacity(self, capacity: Mapping[str, int | None]) -> None: ...


class Patcher(PodPatcher, NodePatcher, Protocol):
    """Who writes on this node's pods and on its Node."""
