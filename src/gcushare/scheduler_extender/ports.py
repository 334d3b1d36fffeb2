"""The extender's ports to the outside: small protocols, with the adapters of a real cluster."""

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
        """Bind a pod and write its record, both or neither; neither if the pod is not at ``resource_version``."""
        ...

    async def read_pod(self, namespace: str, name: str, *, timeout_s: float) -> Pod:
        """Read a pod's newest state."""
        ...


class WakeApi(Protocol):
    """Makes kube-scheduler try a pod again. Raises the errors of ``gcushare.kube.errors``."""

    async def note_room(self, pod: PodRef, moment: str, *, timeout_s: float) -> None:
        """Write on a waiting pod when room for it was found. Each ``moment`` must differ from the last one."""
        ...


class Leadership(Protocol):
    """Whether this replica serves. ``kube.election.LeaderElector`` is an implementation."""

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads; no other replica can be serving then."""
        ...

    @property
    def holder(self) -> str:
        """The name of the replica that serves, as far as is known; empty if none does."""
        ...

    def holds(self, margin_s: float) -> bool:
        """Whether this replica serves, and no other can begin within ``margin_s`` seconds."""
        ...


class AlwaysLeader:
    """The leadership of a replica that runs without an election."""

    is_leader = True
    holder = ""

    def holds(self, margin_s: float) -> bool:
        """Always, because there is no other replica."""
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
        """PATCH an annotation."""
        await self._client.patch_pod_annotations(pod, {keys.ROOM_FOUND: moment}, timeout_s=timeout_s)

    async def read_pod(self, namespace: str, name: str, *, timeout_s: float) -> Pod:
        """GET the pod."""
        return await self._client.get(PODS, name, namespace=namespace, timeout_s=timeout_s)
