"""Which vendor's library to open and how: the value that a worker is started with, and how its binding is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gcushare.vendors import VENDORS, Vendor

if TYPE_CHECKING:  # settings need the names of libraries alone
    from gcushare.cards.ports import CallObserver, CardLibrary

VENDOR_OF_LIBRARY: Mapping[str, Vendor] = {vendor.library.name: vendor for vendor in VENDORS}
"""The vendor of each library's cards, by the value of ``--cards``, in the order in which ``auto`` asks them."""

SOURCES = ("auto", *VENDOR_OF_LIBRARY, "simulated:FILE")
"""The accepted forms of ``--cards``."""
LIBRARY_FORMS = tuple(f"{name}=FILE" for name in VENDOR_OF_LIBRARY)
"""The accepted forms of ``--card-library``: a library that is not in the usual places."""
PCI_DEVICES = Path("/sys/bus/pci/devices")
"""Where the kernel keeps one link per PCI function; a card's link disappears when the card falls off the bus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySpec:
    """A vendor's library to open; the worker process gets it as JSON.

    ``kind``: a key of ``VENDOR_OF_LIBRARY``. ``library``: a path, "" for the usual places. ``pci_devices``: the sysfs
    folder of PCI devices. ``extra_application_xids``: NVIDIA XIDs that an admin does not want to make a card unhealthy.
    ``unified_memory``: the bytes of a card without memory of its own; -1: a share of the machine's; 0: it is left out.
    """

    kind: str
    library: str = ""
    pci_devices: str = str(PCI_DEVICES)
    extra_application_xids: tuple[int, ...] = ()
    unified_memory: int = 0


def create_library(spec: LibrarySpec, observe: CallObserver) -> CardLibrary:
    """Create the library's binding without opening it; its module is imported only here.

    ``observe`` gets the name of each of the vendor's functions right before its call. Such a module has
    ``create_library(spec, bus, observe)``.
    """
    from gcushare.cards.pci import PciBus

    module = import_module(VENDOR_OF_LIBRARY[spec.kind].library.module)
    library: CardLibrary = module.create_library(spec, PciBus(Path(spec.pci_devices)), observe)
    return library
