"""What the programs of a node need of the API server: writes on pods, evictions and events.

A ``KubeClient`` is a ``PodPatcher`` and an ``EvictionClient``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gcushare.core.nodes import PodRef
from gcushare.kube.events import EventRecorder
from gcushare.wire.objects import ObjectReference


class PodPatcher(Protocol):
    """Writes on pods: exactly this uid, or a ConflictError. None removes an annotation."""

    async def patch_pod_annotations(self, pod: PodRef, annotations: Mapping[str, str | None]) -> object: ...


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


class EventAnnouncer:
    """Posts Kubernetes events."""

    def __init__(self, recorder: EventRecorder, node_name: str) -> None:
        self._recorder = recorder
        # The kubelet's own events name a node by its name in place of the uid; `kubectl describe node` finds these.
        self._node = ObjectReference(kind="Node", name=node_name, uid=node_name, api_version="v1")

    def about_node(self, reason: str, message: str, *, warning: bool) -> None:
        """Post an event about this node."""
        self._recorder.record(self._node, reason, message, warning=warning)

    def about_pod(self, pod: PodRef, reason: str, message: str, *, warning: bool) -> None:
        """Post an event about a pod."""
        about = ObjectReference(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid, api_version="v1")
        self._recorder.record(about, reason, message, warning=warning)
