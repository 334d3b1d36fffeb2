"""The two kinds of files that a prepared claim needs: the driver's checkpoint, and a CDI specification per claim.

Both are small and written at once, on the event loop: a call of the kubelet that is cancelled in the middle must not
leave a thread behind that still writes.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from gcushare.core.errors import DeviceError, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.node.cdi import CDI_VERSION, naming_what_failed, remove_specification, write_specification
from gcushare.runtime.safe_directory import Attributes, UnsafePathError, open_directory
from gcushare.wire.dra.checkpoint import (
    CHECKPOINT,
    CHECKPOINT_NAME,
    CHECKPOINT_VERSION,
    MAX_CHECKPOINT_BYTES,
    Checkpoint,
    PreparedClaim,
)
from gcushare.wire.untrusted_json import read_bounded

logger = logging.getLogger(__name__)

_UID = re.compile("[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?")
_ROOT_ALONE = Attributes(mode=0o600)


class CheckpointFile:
    """``checkpoint.json`` in the driver's own directory, replaced in one step."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / CHECKPOINT_NAME

    def read(self) -> dict[str, PreparedClaim] | None:
        """The prepared claims by uid; None if there is no file.

        Raises:
            RemoteContractError: it cannot be understood; keep it aside, and make another.
            DeviceError: it cannot be read.
        """
        try:
            with (
                open_directory(self.path.parent) as directory,
                os.fdopen(directory.open_own_to_read(self.path.name), "rb") as file,
            ):
                content = read_bounded(file, MAX_CHECKPOINT_BYTES, str(self.path))
        except FileNotFoundError:
            return None
        except (OSError, UnsafePathError) as error:
            raise DeviceError(f"the checkpoint {self.path} cannot be read: {error}") from error
        checkpoint = CHECKPOINT.read(content)
        if checkpoint.version != CHECKPOINT_VERSION:
            raise RemoteContractError(
                f"the checkpoint {self.path} has version {checkpoint.version}; this driver reads {CHECKPOINT_VERSION}"
            )
        return checkpoint.claims

    def write(self, claims: dict[str, PreparedClaim]) -> None:
        """Replace the file.

        Raises:
            DeviceError: it cannot be written; the old one is as it was.
        """
        content = msgspec.json.encode(Checkpoint(version=CHECKPOINT_VERSION, claims=claims), order="sorted")
        with (
            naming_what_failed(f"the checkpoint {self.path} cannot be written"),
            open_directory(self.path.parent, make=True) as directory,
        ):
            directory.write(self.path.name, content, _ROOT_ALONE, f"{self.path.name}.tmp")

    def copy_aside(self) -> Path | None:
        """Copy a file that cannot be understood, for a person to examine; returns the copy, None if there is no file.

        The file itself stays until it is replaced: without any, a start would take the node for one without claims.

        Raises:
            DeviceError: it cannot be copied.
        """
        try:
            with open_directory(self.path.parent) as directory:
                with os.fdopen(directory.open_own_to_read(self.path.name), "rb") as file:
                    content = file.read(MAX_CHECKPOINT_BYTES)
                number = sum(name.startswith(f"{self.path.name}.unreadable-") for name in directory.names()) + 1
                aside = f"{self.path.name}.unreadable-{number}"
                directory.write(aside, content, _ROOT_ALONE, f"{self.path.name}.tmp")
        except FileNotFoundError:
            return None
        except (OSError, UnsafePathError) as error:
            raise DeviceError(f"the checkpoint {self.path} cannot be copied: {error}") from error
        return self.path.with_name(aside)


class ClaimCdiFiles:
    """A CDI specification per claim, ``<driver>-claim-<uid>.json``, with one device of the claim's uid."""

    def __init__(self, directory: Path, driver: str) -> None:
        self._directory = directory
        self._prefix = f"{driver}-claim-"
        self._kind = f"{driver}/claim"

    def cdi_name(self, claim: PreparedClaim) -> str | None:
        """The name by which the runtime finds a claim's device; None if its containers get nothing by it."""
        return f"{self._kind}={claim.uid}" if _edits_of(claim) else None

    def write(self, claim: PreparedClaim) -> None:
        """Write a claim's file; repeatable, and nothing if it is there already.

        Raises:
            DeviceError: it cannot be written.
            RemoteContractError: the uid is no name of a file.
        """
        path, edits = self._directory / self._file_name(claim.uid), _edits_of(claim)
        if edits:
            devices = [{"name": claim.uid, "containerEdits": edits}]
            write_specification(path, {"cdiVersion": CDI_VERSION, "kind": self._kind, "devices": devices})

    def remove(self, uid: str) -> None:
        """Remove a claim's file; nothing if there is none.

        Raises:
            DeviceError: it cannot be removed.
            RemoteContractError: the uid is no name of a file.
        """
        remove_specification(self._directory / self._file_name(uid))

    def exist(self) -> bool:
        """Whether there is a file of any claim.

        Raises:
            DeviceError: the folder cannot be read.
        """
        with (
            naming_what_failed(f"CDI files of claims in {self._directory} cannot be read"),
            open_directory(self._directory, make=True) as directory,
        ):
            return any(name.startswith(self._prefix) for name in directory.names())

    def remove_others(self, uids: Iterable[str]) -> int:
        """Remove the files of claims that are not among ``uids``; returns how many. The log names those that stay.

        Raises:
            DeviceError: the folder cannot be read.
        """
        kept = {self._file_name(uid) for uid in uids}
        removed = 0
        with (
            naming_what_failed(f"CDI files of claims in {self._directory} cannot be removed"),
            open_directory(self._directory, make=True) as directory,
        ):
            for name in directory.names():
                if name.startswith(self._prefix) and name not in kept:
                    try:
                        removed += directory.remove(name)
                    except OSError as error:  # no claim names it, so no container gets it
                        facts = fields(file=directory.shown(name), reason=error)
                        logger.warning("a CDI file of no claim cannot be removed %s", facts)
        return removed

    def _file_name(self, uid: str) -> str:
        if _UID.fullmatch(uid) is None:
            raise RemoteContractError(f"{uid[:80]!r} is no uid of a claim: expected letters, digits and '-'")
        return f"{self._prefix}{uid}.json"


def _edits_of(claim: PreparedClaim) -> dict[str, Any]:
    """The specification's ``containerEdits``; empty if there are none, which no device may have."""
    edits = claim.edits
    found: dict[str, Any] = {}
    if edits.variables:
        found["env"] = [f"{name}={value}" for name, value in sorted(edits.variables.items())]
    if edits.device_nodes:
        found["deviceNodes"] = [{"path": path, "permissions": "rw"} for path in edits.device_nodes]
    if edits.mounts:
        options = ["ro", "nosuid", "nodev", "rbind"]
        found["mounts"] = [{"hostPath": path, "containerPath": path, "options": options} for path in edits.mounts]
    for inside, outside in sorted(edits.folders.items()):
        options = ["rw", "nosuid", "nodev", "rbind"]
        found.setdefault("mounts", []).append({"hostPath": outside, "containerPath": inside, "options": options})
    return found
