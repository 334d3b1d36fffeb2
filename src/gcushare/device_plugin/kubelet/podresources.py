"""Reads which pod holds which ids: by podresources, or from the kubelet's checkpoint if that does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from gcushare.core.errors import DeviceError, RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.device_plugin.kubelet.checkpoint import read_checkpoint
from gcushare.device_plugin.plugin_settings import KubeletSettings
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.node.pod_resources import list_pod_resources
from gcushare.vendors import Vendor
from gcushare.wire.kubelet.pod_resources import decode_holdings
from gcushare.wire.protos import services

logger = logging.getLogger(__name__)

LIST_TIMEOUT_S = 2.0
QUIET_S = 60.0
"""After podresources did not answer, only the checkpoint is read for this long."""


@dataclass(eq=False)
class PodResourcesReader:
    """Reads the allocations of one vendor's two resources. ``fetch`` waits at most ``LIST_TIMEOUT_S``."""

    vendor: Vendor
    settings: KubeletSettings
    _: KW_ONLY
    clock: Callable[[], float]
    answer_limit_bytes: int = services.POD_RESOURCES_ANSWER_LIMIT_BYTES

    def __post_init__(self) -> None:
        self._ask_again_at = float("-inf")
        self._failure = ""

    async def fetch(self, *, timeout_s: float = LIST_TIMEOUT_S) -> KubeletAllocations:
        """Read which pod holds what.

        Raises:
            RetryableError: neither source can be read; says why.
        """
        if self.clock() >= self._ask_again_at:
            try:
                return await self._list(timeout_s)
            except RetryableError as error:
                self._failure, self._ask_again_at = str(error), self.clock() + QUIET_S
        try:
            allocations = await self.fetch_checkpoint()
        except DeviceError as broken:
            raise RetryableError(f"the kubelet's allocations cannot be read: {self._failure}; {broken}") from broken
        logger.debug("read the checkpoint instead %s", fields(reason=self._failure))
        return allocations

    async def fetch_checkpoint(self) -> KubeletAllocations:
        """Read the kubelet's checkpoint, by pod uid; it is complete at every moment, also while the kubelet starts.

        In a thread: the file may be megabytes long, on a disk that is busy with images.

        Raises:
            DeviceError: it cannot be read.
        """
        memory, whole = self.vendor.memory_resource, self.vendor.whole_card_resource
        return await asyncio.to_thread(read_checkpoint, self.settings.checkpoint, memory, whole)

    async def _list(self, timeout_s: float) -> KubeletAllocations:
        socket = self.settings.pod_resources_socket
        body = await list_pod_resources(socket, timeout_s=timeout_s, limit_bytes=self.answer_limit_bytes)
        allocations = KubeletAllocations("podresources")
        try:
            for found in decode_holdings(body, self.vendor.memory_resource, self.vendor.whole_card_resource):
                allocations.add(found.pod, found.container, found.ids)
                allocations.add_whole(found.pod, found.container, found.whole_ids)
        except RemoteContractError as error:
            raise RetryableError(f"podresources at {socket}: {error}") from error
        return allocations
