"""What the kubelet double needs from an API server: a small port, and the words it speaks in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from gcushare.core.errors import RetryableError

JsonObject = dict[str, Any]
"""A Kubernetes object as JSON. The double is a consumer of arbitrary objects, so it reads them untyped."""


class GoneError(RetryableError):
    """The resource version is too old for a watch: list again."""


@dataclass(frozen=True, slots=True)
class PodList:
    """The pods of one node and the version a watch continues from."""

    pods: tuple[JsonObject, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One change of one pod; ``resource_version`` is where a new watch would continue after it."""

    kind: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    pod: JsonObject
    resource_version: str


class NodeApi(Protocol):
    """The API server as one node sees it.

    Raises:
        NotFoundError: the object does not exist. ConflictError: it exists already or its uid is another.
        ForbiddenError: rights are missing. RetryableError: the server is away or overloaded. GoneError: list again.
    """

    async def list_pods(self, node: str) -> PodList: ...

    def watch_pods(self, node: str, resource_version: str) -> AsyncIterator[PodEvent]:
        """Yield changes after that version until the server ends the stream."""
        ...

    async def get_node(self, name: str) -> JsonObject: ...

    async def create_node(self, node: JsonObject) -> JsonObject: ...

    async def patch_node_status(self, name: str, patch: JsonObject) -> JsonObject:
        """Merge-patch the status subresource and return the node as it is then."""
        ...

    async def patch_pod_status(self, namespace: str, name: str, patch: JsonObject) -> JsonObject:
        """Merge-patch the status subresource; ``metadata.uid`` in the patch is a precondition."""
        ...

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Remove the pod of that uid at once (grace period 0)."""
        ...

    async def get_claim(self, namespace: str, name: str) -> JsonObject:
        """Read a ResourceClaim."""
        ...

    async def create_event(self, namespace: str, event: JsonObject) -> None: ...

    async def renew_lease(self, name: str, renew_time: str, duration_s: int) -> None:
        """Create or renew the node's Lease in ``kube-node-lease``."""
        ...
