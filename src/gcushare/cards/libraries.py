"""Which vendor's library to open and how: the value that a worker is started with, and the table of libraries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gcushare.cards.pci import PCI_DEVICES, PciBus
from gcushare.cards.ports import CallObserver, CardLibrary

LibraryKind = Literal["efml", "nvml"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySpec:
    """A vendor's library to open.

    ``library`` is a path, "" for the usual places; ``pci_devices`` the sysfs folder of PCI devices;
    ``extra_application_xids`` NVIDIA XIDs that an admin does not want to count as illness.
    """

    kind: LibraryKind
    library: str = ""
    pci_devices: str = str(PCI_DEVICES)
    extra_application_xids: tuple[int, ...] = ()


def create_library(spec: LibrarySpec, observe: CallObserver) -> CardLibrary:
    """Create the library's binding without opening it. A binding is imported only where it is asked for."""
    bus = PciBus(Path(spec.pci_devices))
    match spec.kind:
        case "efml":
            from gcushare.cards.enflame.efml import EfmlLibrary

            return EfmlLibrary(spec.library, bus, observe)
        case "nvml":
            from gcushare.cards.nvidia.nvml import NvmlLibrary

            return NvmlLibrary(spec.library, bus, observe, frozenset(spec.extra_application_xids))
