"""Reads which pod holds which ids: by podresources, or from the kubelet's checkpoint if that does not answer.

Source of the checkpoint's form: Kubernetes ``pkg/kubelet/cm/devicemanager/checkpoint``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import msgspec

from gcushare.core.errors import DeviceError, RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.device_plugin.pods.allocations import CHECKPOINT, KubeletAllocations, MissingCheckpointError
from gcushare.node.pod_resources import list_pod_resources
from gcushare.wire.kubelet.plugin_messages import device_ids
from gcushare.wire.kubelet.pod_resources import decode_holdings
from gcushare.wire.protos import services
from gcushare.wire.untrusted_json import BoundedJsonDecoder, read_bounded

logger = logging.getLogger(__name__)

LIST_TIMEOUT_S = 2.0
QUIET_S = 60.0
"""After podresources did not answer, only the checkpoint is read for this long."""


@dataclass(eq=False)
class PodResourcesReader:
    """Reads the allocations of one vendor's two resources. ``fetch`` waits at most ``LIST_TIMEOUT_S``."""

    resource: str
    _: KW_ONLY
    whole: str = ""
    pod_resources_socket: Path
    checkpoint: Path
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
        return await asyncio.to_thread(read_checkpoint, self.checkpoint, self.resource, self.whole)

    async def _list(self, timeout_s: float) -> KubeletAllocations:
        if not self.pod_resources_socket.exists():
            raise RetryableError(f"podresources at {self.pod_resources_socket} does not answer")
        body = await list_pod_resources(
            self.pod_resources_socket, timeout_s=timeout_s, limit_bytes=self.answer_limit_bytes
        )
        allocations = KubeletAllocations("podresources")
        try:
            for found in decode_holdings(body, self.resource, self.whole):
                allocations.add(found.pod, found.container, found.ids)
                allocations.add_whole(found.pod, found.container, found.whole_ids)
        except RemoteContractError as error:
            raise RetryableError(f"podresources at {self.pod_resources_socket}: {error}") from error
        return allocations


CHECKPOINT_NAME = "kubelet_internal_checkpoint"


class _PodDevices(msgspec.Struct):
    pod_uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    device_ids: dict[str, list[str]] | list[str] | None = msgspec.field(name="DeviceIDs", default=None)
    answer: bytes | None = msgspec.field(name="AllocResp", default=None)


class _Data(msgspec.Struct):
    entries: list[_PodDevices] | None = msgspec.field(name="PodDeviceEntries", default=None)
    registered: dict[str, list[str] | None] | None = msgspec.field(name="RegisteredDevices", default=None)


class _Checkpoint(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


MAX_CHECKPOINT_BYTES = 64 * 1024 * 1024
"""A node of 262,144 units that are all held needs some 6 MB; other plugins' devices are few."""
CHECKPOINT_FILE = BoundedJsonDecoder(_Checkpoint, "it", limit_bytes=MAX_CHECKPOINT_BYTES, max_depth=None)


def read_checkpoint(path: Path, resource: str, whole: str = "") -> KubeletAllocations:
    """Read the kubelet's checkpoint, which names pods by uid. Below 1.20 its ids are a list, from then on by NUMA node.

    Raises:
        DeviceError: the file is missing, unreadable or not a checkpoint.
    """
    allocations = KubeletAllocations(CHECKPOINT)
    for entry in _decode_checkpoint(path).entries or []:
        if not entry.device_ids or entry.resource not in (resource, whole):
            continue
        ids = entry.device_ids
        flat = ids if isinstance(ids, list) else [i for of_numa in ids.values() for i in of_numa]
        if entry.resource == resource:
            allocations.add(entry.pod_uid, entry.container, device_ids(flat), entry.answer or b"")
        else:
            allocations.add_whole(entry.pod_uid, entry.container, flat, entry.answer or b"")
    return allocations


def read_registered(path: Path, resource: str) -> tuple[str, ...] | None:
    """Read from the checkpoint which healthy ids any plugin last sent to the kubelet for a resource.

    None if the kubelet knows no plugin for it: it drops a plugin five minutes after its end.

    Raises:
        DeviceError: the file is missing, unreadable or not a checkpoint.
    """
    registered = _decode_checkpoint(path).registered or {}
    return tuple(registered[resource] or ()) if resource in registered else None


def _decode_checkpoint(path: Path) -> _Data:
    try:
        with path.open("rb") as file:
            return CHECKPOINT_FILE.read(read_bounded(file, MAX_CHECKPOINT_BYTES, "it")).data
    except FileNotFoundError as error:
        raise MissingCheckpointError(f"the kubelet's checkpoint {path} does not exist") from error
    except (OSError, RemoteContractError) as error:
        raise DeviceError(f"the kubelet's checkpoint {path} cannot be read: {error}") from error
