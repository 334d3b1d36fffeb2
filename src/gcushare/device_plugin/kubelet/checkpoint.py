"""The kubelet's checkpoint of its device manager: who holds which ids, and what was registered.

Source: Kubernetes ``pkg/kubelet/cm/devicemanager/checkpoint``.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gcushare.core.errors import DeviceError, RemoteContractError
from gcushare.device_plugin.pods.kubelet_allocations import CHECKPOINT, KubeletAllocations
from gcushare.wire.kubelet.device_lists import device_ids
from gcushare.wire.untrusted_json import BoundedJsonDecoder, read_bounded

CHECKPOINT_NAME = "kubelet_internal_checkpoint"


class _PodDevices(msgspec.Struct):
    pod_uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    device_ids: dict[str, list[str]] | list[str] | None = msgspec.field(name="DeviceIDs", default=None)


class _Data(msgspec.Struct):
    entries: list[_PodDevices] | None = msgspec.field(name="PodDeviceEntries", default=None)
    registered: dict[str, list[str] | None] | None = msgspec.field(name="RegisteredDevices", default=None)


class _Checkpoint(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


MAX_CHECKPOINT_BYTES = 64 * 1024 * 1024
"""A node of 262,144 units that are all held has some 6 MB in it, and other plugins' devices are few."""
CHECKPOINT_FILE = BoundedJsonDecoder(_Checkpoint, "it", limit_bytes=MAX_CHECKPOINT_BYTES, max_depth=None)


def read_checkpoint(path: Path, resource: str, whole: str = "") -> KubeletAllocations:
    """Read the kubelet's checkpoint, which names pods by uid. Below 1.20 its ids are a list, from then on by NUMA node.

    Raises:
        DeviceError: the file is missing, unreadable or not a checkpoint.
    """
    record = KubeletAllocations(CHECKPOINT)
    for entry in _decode_checkpoint(path).entries or []:
        if not entry.device_ids or entry.resource not in (resource, whole):
            continue
        ids = entry.device_ids
        flat = ids if isinstance(ids, list) else [i for of_numa in ids.values() for i in of_numa]
        if entry.resource == resource:
            record.add(entry.pod_uid, entry.container, device_ids(flat))
        else:
            record.add_whole(entry.pod_uid, entry.container, flat)
    return record


def read_registered(path: Path, resource: str) -> tuple[str, ...] | None:
    """Read from the checkpoint which healthy ids the kubelet was last sent for a resource, by whatever plugin.

    None where the kubelet knows of no plugin for it: it forgets one five minutes after its end.

    Raises:
        DeviceError: the file is missing, unreadable or not a checkpoint.
    """
    registered = _decode_checkpoint(path).registered or {}
    return tuple(registered[resource] or ()) if resource in registered else None


def _decode_checkpoint(path: Path) -> _Data:
    try:
        with path.open("rb") as file:
            return CHECKPOINT_FILE.read(read_bounded(file, MAX_CHECKPOINT_BYTES, "it")).data
    except (OSError, RemoteContractError) as error:
        raise DeviceError(f"the kubelet's checkpoint {path} cannot be read: {error}") from error
