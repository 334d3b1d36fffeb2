"""The kubelet's record of devices on disk, ``kubelet_internal_checkpoint``: layout, reading and careful writing.

The layout is the stock kubelet's. Its checksum is a hash of Go's own printing of the data, which
nothing else can compute; here it is a CRC-32 over the ``Data`` bytes. Only the kubelet itself may rely on it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import zlib
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from gcushare.core.errors import RemoteContractError

logger = logging.getLogger(__name__)

CHECKPOINT_NAME = "kubelet_internal_checkpoint"
NO_NUMA_NODE = -1
"""Key of the ids of devices that name no NUMA node."""


class PodDevices(
    msgspec.Struct,
    frozen=True,
    dict=True,
    rename={
        "pod_uid": "PodUID",
        "container": "ContainerName",
        "resource": "ResourceName",
        "ids_by_numa": "DeviceIDs",
        "answer": "AllocResp",
    },
):
    """What one container holds of one resource; ``answer`` is the plugin's ContainerAllocateResponse as bytes."""

    pod_uid: str
    container: str
    resource: str
    ids_by_numa: Mapping[int, tuple[str, ...]]
    answer: bytes

    @cached_property
    def ids(self) -> frozenset[str]:
        """All of them; one whose device names two NUMA nodes stands under both."""
        return frozenset().union(*self.ids_by_numa.values())


class Checkpoint(
    msgspec.Struct, frozen=True, rename={"entries": "PodDeviceEntries", "registered": "RegisteredDevices"}
):
    """Everything the kubelet remembers about devices across a restart; only healthy ids count as registered."""

    entries: tuple[PodDevices, ...] | None
    """None where there are none: the stock kubelet writes ``null`` then."""
    registered: Mapping[str, Collection[str]]


class _File(msgspec.Struct, frozen=True):
    Data: msgspec.Raw
    Checksum: int


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the file's bytes."""
    data = msgspec.json.encode(checkpoint)
    return msgspec.json.encode(_File(Data=msgspec.Raw(data), Checksum=zlib.crc32(data)))


def decode_checkpoint(raw: bytes) -> Checkpoint:
    """Read the file's bytes.

    Raises:
        RemoteContractError: not the layout, or the checksum does not match.
    """
    try:
        file = msgspec.json.decode(raw, type=_File)
        computed = zlib.crc32(bytes(file.Data))
        if computed != file.Checksum:
            raise RemoteContractError(f"checkpoint is corrupt: checksum {file.Checksum!r}, computed {computed!r}")
        return msgspec.json.decode(file.Data, type=Checkpoint)
    except msgspec.MsgspecError as error:
        raise RemoteContractError(f"checkpoint is corrupt: {error}; remove the file to start empty") from error


class CheckpointFile:
    """The checkpoint in a plugin directory; replaced whole, so that a reader never sees half of it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / CHECKPOINT_NAME

    def read(self) -> Checkpoint | None:
        """Return what stands there, None when nothing does.

        Raises:
            RemoteContractError: the file is corrupt.
        """
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return None
        return decode_checkpoint(raw)

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the file. Effects: writes a temporary file in the same folder, which is always removed."""
        handle, name = tempfile.mkstemp(prefix=".", dir=self.path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(encode_checkpoint(checkpoint))
            Path(name).replace(self.path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()
            raise
        logger.debug("checkpoint written path=%s entries=%d", self.path, len(checkpoint.entries or ()))
