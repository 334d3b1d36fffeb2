"""What the programs of a node need of the API server: writes on pods, events, and the drivers of its slices."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from gcushare.core.assignments import PodRef
from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.events import EventRecorder, about_pod
from gcushare.kube.resources import SLICES_OF_ALL_DRIVERS, Selector
from gcushare.wire.objects import ObjectReference

logger = logging.getLogger(__name__)

SLICES_TIMEOUT_S = 2.0
"""A kubelet that has restarted waits for the answer, and must not wait for an API server that is away."""


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
        self._recorder.record(about_pod(pod), reason, message, warning=warning)


class SliceDrivers:
    """Reads which drivers publish devices of one node. What cannot be read is logged once, and counts as none."""

    def __init__(self, client: KubeClient, node: str) -> None:
        self._client = client
        self._selector = Selector(fields=f"spec.nodeName={node}")
        self._failure = ""

    async def read(self) -> frozenset[str]:
        """The drivers' names; none if the cluster has no ResourceSlices, or they may not be read."""
        try:
            async with asyncio.timeout(SLICES_TIMEOUT_S):
                found = await self._client.list_all(SLICES_OF_ALL_DRIVERS, self._selector)
        except (GcushareError, TimeoutError) as error:
            if not self._failure:
                self._failure = str(error) or "no answer in time"
                logger.debug("ResourceSlices of other drivers are not known %s", fields(reason=self._failure))
            return frozenset()
        return frozenset(str(each.get("spec", {}).get("driver", "")) for each in found)
