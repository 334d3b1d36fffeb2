"""What the extender needs from outside, as small as it is used; the adapters below fit, and so do tests' fakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gcushare.core.nodes import PodRef
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import PODS
from gcushare.wire.annotations import keys
from gcushare.wire.objects import Pod


class PodApi(Protocol):
    """The API server's pods. Raises the errors of ``gcushare.kube.errors``."""

    async def bind_pod(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        *,
        resource_version: str = "",
        timeout_s: float | None = None,
    ) -> None:
        """Bind a pod and write its record, both or neither; neither where it is not at ``resource_version`` now."""
        ...

    async def read_pod(self, namespace: str, name: str, *, timeout_s: float) -> Pod:
        """Read a pod's newest state."""
        ...


class WakeApi(Protocol):
    """How kube-scheduler is made to try a pod again. Raises the errors of ``gcushare.kube.errors``."""

    async def note_room(self, pod: PodRef, moment: str, *, timeout_s: float) -> None:
        """Write on a waiting pod when room for it was found; a moment that is not the last one written."""
        ...


class Leadership(Protocol):
    """Whether this replica is the one that serves; ``kube.election.LeaderElector`` is one."""

    @property
    def is_leader(self) -> bool:
        """Whether no other replica can be serving now."""
        ...

    @property
    def holder(self) -> str:
        """Who serves, as far as is known; empty when no replica does."""
        ...

    def holds(self, margin_s: float) -> bool:
        """Whether this replica serves and no other can begin to within ``margin_s``."""
        ...


class AlwaysLeader:
    """The leadership of a replica that runs without an election."""

    is_leader = True
    holder = ""

    def holds(self, margin_s: float) -> bool:
        """There is no other replica."""
        return True


class KubePods:
    """The pods of a real API server."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def bind_pod(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        *,
        resource_version: str = "",
        timeout_s: float | None = None,
    ) -> None:
        """POST the Binding."""
        await self._client.bind_pod(pod, node, annotations, resource_version=resource_version, timeout_s=timeout_s)

    async def note_room(self, pod: PodRef, moment: str, *, timeout_s: float) -> None:
        """PATCH an annotation, through the status: that changes no spec, whatever else goes wrong."""
        await self._client.patch_pod_annotations(
            pod, {keys.ROOM_FOUND: moment}, subresource="status", timeout_s=timeout_s
        )

    async def read_pod(self, namespace: str, name: str, *, timeout_s: float) -> Pod:
        """GET the pod."""
        return await self._client.get(PODS, name, namespace=namespace, timeout_s=timeout_s)
