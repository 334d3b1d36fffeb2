"""The CDI specification of this node's cards, for container runtimes that inject devices by name.

One file for all cards of a vendor, replaced in one step whenever the cards change. It stays when the plugin stops: a
container that restarts meanwhile needs it. ``remove`` is for the uninstall.

Source: the Container Device Interface specification, version 0.6.0; kinds and names as in ``Delivery``.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import msgspec

from gcushare.core.cards import Inventory
from gcushare.core.errors import DeviceError
from gcushare.runtime.logs import fields
from gcushare.vendors import Vendor

logger = logging.getLogger(__name__)

CDI_VERSION = "0.6.0"


class CdiSpecFile:
    """The file ``<dir>/gcushare-<vendor>.json``."""

    def __init__(self, directory: Path, vendor: Vendor) -> None:
        self._vendor = vendor
        self.path = directory / f"gcushare-{vendor.name}.json"

    def write(self, inventory: Inventory) -> None:
        """Replace the file by these cards; repeatable.

        Raises:
            DeviceError: the directory cannot be written; containers would not start with names that nobody defines.
        """
        content = msgspec.json.format(msgspec.json.encode(cdi_spec(self._vendor, inventory)), indent=2)
        temporary = self.path.with_suffix(".tmp")
        try:
            if self.path.exists() and self.path.read_bytes() == content:
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise DeviceError(f"the CDI specification {self.path} cannot be written: {error}") from error
        logger.info("wrote the CDI specification %s", fields(file=self.path, cards=len(inventory.cards)))

    def remove(self) -> bool:
        """Remove the file; False where there was none."""
        existed = self.path.exists()
        self.path.unlink(missing_ok=True)
        return existed


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
