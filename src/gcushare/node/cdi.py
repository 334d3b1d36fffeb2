"""The CDI specification of this node's cards, for container runtimes that inject devices by name.

One file for all cards of a vendor, replaced in one step whenever the cards change. It stays when the plugin stops, and
while pods hold cards after the strategy was given up: a container that restarts needs the names that it was given.

A name must mean the card that the pod's record says. NVIDIA's toolkit names its devices by NVML's index and by uuid,
and an index of NVML is not always the minor number of the device node, which is ours: there the uuid is the name.

Sources: the Container Device Interface specification, version 0.6.0; ``nvidia-ctk cdi generate``, whose names are
``index,uuid`` since 1.15 and ``index`` alone before.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from gcushare.core.cards import Card, Inventory
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields
from gcushare.runtime.safe_directory import Attributes, UnsafePathError, open_directory, remove_file
from gcushare.vendors import Vendor

logger = logging.getLogger(__name__)

CDI_VERSION = "0.6.0"
STANDARD_DIRS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""The directories that runtimes read. If both define a name, the definition in the second one counts."""
_SPEC_SUFFIXES = (".json", ".yaml")
_NAME = re.compile("[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
"""A device's name by the specification; one that is none makes the whole file unusable."""

Fingerprint: TypeAlias = frozenset[tuple[str, int, int]]
"""Path, inode and change time of each specification."""


@contextlib.contextmanager
def naming_what_failed(words: str) -> Iterator[None]:
    """Raise what a file or folder answers as a ``DeviceError`` that begins with these words."""
    try:
        yield
    except (OSError, UnsafePathError) as error:
        raise DeviceError(f"{words}: {error}") from error


def write_specification(path: Path, specification: Mapping[str, Any]) -> bool:
    """Replace a CDI specification in one step; False if it says this already.

    Raises:
        DeviceError: the directory cannot be written, or others can write it.
    """
    content = msgspec.json.format(msgspec.json.encode(specification), indent=2)
    with (
        naming_what_failed(f"the CDI specification {path} cannot be written"),
        open_directory(path.absolute().parent, make=True) as directory,
    ):
        if directory.holds(path.name, content):
            return False
        directory.write(path.name, content, Attributes(), f"{path.name}.tmp")  # with no suffix that runtimes read
    return True


def remove_specification(path: Path) -> bool:
    """Remove a CDI specification; False if there is none.

    Raises:
        DeviceError: the directory cannot be written.
    """
    with naming_what_failed(f"the CDI specification {path} cannot be removed"):
        return remove_file(path)


class CdiSpecFile:
    """The file ``<dir>/gcushare-<vendor>.json``, and the others that runtimes read there and in ``standard_dirs``."""

    def __init__(self, directory: Path, vendor: Vendor, standard_dirs: Sequence[Path] = STANDARD_DIRS) -> None:
        self._vendor = vendor
        self._directories = tuple(dict.fromkeys((directory, *standard_dirs)))
        self.path = directory / f"gcushare-{vendor.name}.json"

    def write(self, inventory: Inventory) -> None:
        """Replace the file by these cards; repeatable.

        Raises:
            DeviceError: the directory cannot be written, or others can write it; containers would not start with names
                that are not defined.
        """
        if write_specification(self.path, cdi_spec(self._vendor, inventory)):
            logger.info("wrote the CDI specification %s", fields(file=self.path, cards=len(inventory.cards)))

    def remove(self) -> bool:
        """Remove the file; False if there was none. Raises as ``remove_specification``."""
        if is_removed := remove_specification(self.path):
            logger.info("removed the CDI specification %s", fields(file=self.path))
        return is_removed

    def fingerprint(self) -> Fingerprint:
        """What changes whenever any specification does; some microseconds, as no file is opened."""
        found: set[tuple[str, int, int]] = set()
        for directory in self._directories:
            with contextlib.suppress(OSError), os.scandir(directory) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):  # a link to nothing hides no other
                        if entry.name.endswith(_SPEC_SUFFIXES):
                            status = entry.stat()
                            found.add((entry.path, status.st_ino, status.st_ctime_ns))
        return frozenset(found)

    def find_others(self) -> dict[Path, bytes]:
        """The contents of other files that define devices of our kind: a container toolkit's own, say."""
        kind = re.compile(rb"""kind["']?\s*:\s*["']?""" + re.escape(self._vendor.cdi_kind.encode()) + rb"""["'\s,]""")
        found: dict[Path, bytes] = {}
        for path in (each for directory in self._directories for each in sorted(directory.glob("*"))):
            try:
                # By its name, as one directory may have two paths: /var/run is a link to /run.
                if path.name != self.path.name and path.suffix in _SPEC_SUFFIXES:
                    content = path.read_bytes()
                    if kind.search(content):
                        found[path] = content
            except OSError as error:
                logger.warning("a CDI specification cannot be read %s", fields(file=path, error=error))
        return found

    def check_others(self, others: Mapping[Path, bytes], inventory: Inventory) -> None:
        """Check that others define every name which containers of ours are given.

        Raises:
            DeviceError: a name is in none of them. Its containers do not start then, which is better than another card.
        """
        names = [cdi_name(self._vendor, each) for each in inventory.cards]
        missing = [name for name in names if not any(_defines(content, name) for content in others.values())]
        if missing:
            raise DeviceError(
                f"{' and '.join(map(str, others))} defines {self._vendor.cdi_kind} without {', '.join(missing)}, so no "
                "container with these cards starts: have its program write these names too (nvidia-ctk cdi generate "
                "from 1.15 on, or an older one with --device-name-strategy=uuid), or remove the file"
            )


class CdiSpecPublisher:
    """Keeps the file as the strategy wants it; ``problem`` says why it cannot be, and is empty otherwise.

    If a toolkit has written a file of our kind, ours is not written. In one directory two definitions of a name make
    both unusable, and ours in a later directory would hide the toolkit's, which brings the driver's files with it.
    """

    def __init__(self, file: CdiSpecFile, *, is_wanted: bool) -> None:
        self._file = file
        self._is_wanted = is_wanted
        self._holders: int | None = None
        self._written: tuple[tuple[tuple[int, str], ...], Fingerprint] | None = None
        self._others: set[Path] = set()
        self.problem = ""

    def update_holders(self, pods: int) -> None:
        """Use how many pods hold cards."""
        self._holders = pods

    def update(self, inventory: Inventory) -> bool:
        """Update the file; True if that failed now, for another reason than before."""
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
        """Write the file, or leave it to a toolkit's; nothing is done if neither cards nor directory changed.

        On the event loop, and before the kubelet can hear of the cards: a container must not be given a name that
        is not defined yet.
        """
        cards = tuple((card.minor_number, card.uuid) for card in inventory.cards)
        if self._written == (cards, self._file.fingerprint()):
            return
        others = self._file.find_others()
        for path in others.keys() - self._others:
            logger.info("another program defines these CDI devices %s", fields(file=path))
        self._others = set(others)
        if others:
            self._file.remove()
            self._file.check_others(others, inventory)
        else:
            self._file.write(inventory)
        self._written = (cards, self._file.fingerprint())


def cdi_name(vendor: Vendor, card: Card) -> str:
    """A card's name in specifications: its uuid if the vendor's toolkit uses it, else its index."""
    return card.uuid if vendor.visible_by_uuid and _NAME.fullmatch(card.uuid) else str(card.minor_number)


def cdi_spec(vendor: Vendor, inventory: Inventory) -> dict[str, Any]:
    """Describe each card as a CDI device, and the control nodes as what every container gets.

    A card with a uuid for its name has its index as another: containers that were given that one restart with it.
    """
    nodes = vendor.device_nodes
    return {
        "cdiVersion": CDI_VERSION,
        "kind": vendor.cdi_kind,
        "devices": [
            {
                "name": name,
                "containerEdits": {
                    "deviceNodes": [{"path": nodes.card.format(index=card.minor_number), "permissions": "rw"}]
                },
            }
            for card in inventory.cards
            for name in dict.fromkeys((cdi_name(vendor, card), str(card.minor_number)))
        ],
        "containerEdits": {"deviceNodes": [{"path": path, "permissions": "rw"} for path in nodes.control]},
    }


def _defines(content: bytes, name: str) -> bool:
    """Whether a specification, JSON or YAML, has a device of this name."""
    pattern = rb"""(?<![A-Za-z])name["']?\s*:\s*["']?""" + re.escape(name.encode()) + rb"""(["'\s,}]|\Z)"""
    return re.search(pattern, content) is not None
