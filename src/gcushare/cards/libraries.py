"""Which vendor's library to open and how: the value that a worker is started with, and the table of libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gcushare.cards.pci import PCI_DEVICES, PciBus
from gcushare.cards.ports import CallObserver, CardLibrary

LibraryKind = str
"""A key of ``LIBRARIES``."""


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
    return LIBRARIES[spec.kind](spec, PciBus(Path(spec.pci_devices)), observe)


def _efml(spec: LibrarySpec, bus: PciBus, observe: CallObserver) -> CardLibrary:
    from gcushare.cards.enflame.efml import EfmlLibrary

    return EfmlLibrary(spec.library, bus, observe)


def _nvml(spec: LibrarySpec, bus: PciBus, observe: CallObserver) -> CardLibrary:
    from gcushare.cards.nvidia.nvml import NvmlLibrary

    return NvmlLibrary(spec.library, bus, observe, frozenset(spec.extra_application_xids))


LIBRARIES: Mapping[LibraryKind, Callable[[LibrarySpec, PciBus, CallObserver], CardLibrary]] = {
    "efml": _efml,
    "nvml": _nvml,
}
"""The libraries that can be opened, by the word of ``--cards``, in the order in which ``auto`` asks them."""
LIBRARY_OF_VENDOR: Mapping[str, LibraryKind] = {"enflame": "efml", "aliyun": "nvml"}
"""Whose cards a vendor's plugin prefers where a node has several kinds."""
