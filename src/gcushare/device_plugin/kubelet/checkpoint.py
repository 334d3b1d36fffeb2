"""The kubelet's checkpoint: which pod, by its uid, holds which ids, and which ids its plugins last sent.

Source of its form: Kubernetes ``pkg/kubelet/cm/devicemanager/checkpoint``.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gcushare.core.errors import DeviceError, RemoteContractError
from gcushare.device_plugin.pods.allocations import CHECKPOINT, KubeletAllocations
from gcushare.wire.kubelet.plugin_messages import device_ids
from gcushare.wire.untrusted_json import BoundedJsonDecoder, read_bounded


class MissingCheckpointError(DeviceError):
    """The kubelet has no checkpoint: it gave nothing out, or the file was removed."""


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


def read_checkpoint(path: Path, resource: str, whole: str) -> KubeletAllocations:
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
