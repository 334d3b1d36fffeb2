"""The CDI specification of this node's cards, for container runtimes that inject devices by name.

One file for all cards of a vendor, replaced in one step whenever the cards change. It stays when the plugin stops, and
while pods hold cards after the strategy was given up: a container that restarts needs the names that it was given.

Source: the Container Device Interface specification, version 0.6.0; kinds and names as in ``AllocateResponses``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from gcushare.core.cards import Inventory
from gcushare.core.errors import DeviceError
from gcushare.runtime.logs import fields
from gcushare.runtime.safe_directory import Attributes, UnsafePathError, open_directory, remove_file
from gcushare.vendors import Vendor

logger = logging.getLogger(__name__)

CDI_VERSION = "0.6.0"
_SPEC_SUFFIXES = (".json", ".yaml")

Fingerprint: TypeAlias = frozenset[tuple[str, int, int]]
"""Name, inode and change time of each specification."""


class CdiSpecFile:
    """The file ``<dir>/gcushare-<vendor>.json``."""

    def __init__(self, directory: Path, vendor: Vendor) -> None:
        self._vendor = vendor
        self.path = directory / f"gcushare-{vendor.name}.json"

    def write(self, inventory: Inventory) -> None:
        """Replace the file by these cards; repeatable.

        Raises:
            DeviceError: the directory cannot be written, or others can write it; containers would not start with names
                that are not defined.
        """
        content = msgspec.json.format(msgspec.json.encode(cdi_spec(self._vendor, inventory)), indent=2)
        try:
            with open_directory(self.path.parent, make=True) as directory:
                if directory.holds(self.path.name, content):
                    return
                directory.write(self.path.name, content, Attributes(), self.path.with_suffix(".tmp").name)
        except (OSError, UnsafePathError) as error:
            raise DeviceError(f"the CDI specification {self.path} cannot be written: {error}") from error
        logger.info("wrote the CDI specification %s", fields(file=self.path, cards=len(inventory.cards)))

    def remove(self) -> bool:
        """Remove the file; False where there was none.

        Raises:
            DeviceError: the directory cannot be written.
        """
        try:
            if not remove_file(self.path):
                return False
        except (OSError, UnsafePathError) as error:
            raise DeviceError(f"the CDI specification {self.path} cannot be removed: {error}") from error
        logger.info("removed the CDI specification %s", fields(file=self.path))
        return True

    def fingerprint(self) -> Fingerprint:
        """What changes whenever any specification of the directory does; some microseconds, as no file is opened."""
        found: set[tuple[str, int, int]] = set()
        with contextlib.suppress(OSError), os.scandir(self.path.parent) as entries:
            for entry in entries:
                if entry.name.endswith(_SPEC_SUFFIXES):
                    status = entry.stat()
                    found.add((entry.name, status.st_ino, status.st_ctime_ns))
        return frozenset(found)

    def find_conflict(self) -> Path | None:
        """Another file of the directory that defines devices of our kind: a container toolkit's own, say."""
        kind = re.compile(rb"""kind["']?\s*:\s*["']?""" + re.escape(self._vendor.cdi_kind.encode()) + rb"""["'\s,]""")
        for path in sorted(self.path.parent.glob("*")):
            try:
                if path != self.path and path.suffix in _SPEC_SUFFIXES and kind.search(path.read_bytes()):
                    return path
            except OSError as error:
                logger.warning("a CDI specification cannot be read %s", fields(file=path, error=error))
        return None


class CdiSpecPublisher:
    """Keeps the file as the strategy wants it; ``problem`` says why it cannot be, and is empty otherwise.

    Two files that define the same device make both unusable for the runtime, so where a toolkit has written one of our
    kind, whose devices have the same names, ours stays away.
    """

    def __init__(self, file: CdiSpecFile, *, is_wanted: bool) -> None:
        self._file = file
        self._is_wanted = is_wanted
        self._holders: int | None = None
        self._written: tuple[tuple[int, ...], Fingerprint] | None = None
        self._conflicting: Path | None = None
        self.problem = ""

    def note_holders(self, pods: int) -> None:
        """Take in how many pods hold cards."""
        self._holders = pods

    def offer(self, inventory: Inventory) -> bool:
        """Bring the file in line with the cards; True where that failed just now, for another reason than before."""
        before = self.problem
        try:
            if self._is_wanted:
                self._write(inventory)
            elif self._holders == 0:
                self._file.remove()
            self.problem = ""
        except DeviceError as error:
            self.problem = str(error)
        if self.problem and self.problem != before:
            logger.error("%s", self.problem)
        return bool(self.problem) and self.problem != before

    def _write(self, inventory: Inventory) -> None:
        """Write the file, or leave it to another's; nothing where neither the cards nor the directory changed.

        On the event loop, and before the kubelet can hear of the cards: a container must not be given a name that
        is not defined yet.
        """
        cards = tuple(card.index for card in inventory.cards)
        if self._written == (cards, self._file.fingerprint()):
            return
        conflicting = self._file.find_conflict()
        if conflicting != self._conflicting and conflicting is not None:
            logger.info("another program defines these CDI devices %s", fields(file=conflicting))
        self._conflicting = conflicting
        if conflicting is not None:
            self._file.remove()
        else:
            self._file.write(inventory)
        self._written = (cards, self._file.fingerprint())


def cdi_spec(vendor: Vendor, inventory: Inventory) -> dict[str, Any]:
    """Describe each card as a CDI device, and the control nodes as what every container gets."""
    nodes = vendor.device_nodes
    return {
        "cdiVersion": CDI_VERSION,
        "kind": vendor.cdi_kind,
        "devices": [
            {
                "name": str(card.index),
                "containerEdits": {"deviceNodes": [{"path": nodes.card.format(index=card.index), "permissions": "rw"}]},
            }
            for card in inventory.cards
        ],
        "containerEdits": {"deviceNodes": [{"path": path, "permissions": "rw"} for path in nodes.control]},
    }
