"""The extender's ports to the outside: the parts of ``kube.client.KubeClient`` that it uses, and the leadership."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gcushare.core.nodes import PodRef
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

    async def patch_pod_annotations(self, pod: PodRef, annotations: Mapping[str, str], *, timeout_s: float) -> object:
        """Set annotations of exactly this pod; kube-scheduler tries it again if a value changes."""
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
