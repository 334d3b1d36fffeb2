"""Enflame cards through libefml: which library, which of its two APIs, and what a card's answers mean."""

from __future__ import annotations

import msgspec

from gcushare.cards.c_library import CLibrary, find_library
from gcushare.cards.enflame.efml_native import NO_MINOR, NativeApi
from gcushare.cards.enflame.efml_nvml_shaped import NvmlShapedApi
from gcushare.cards.errors import LibraryCallError, LibraryNotOpenError
from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.pci import PciBus
from gcushare.cards.ports import CallObserver, CardLibrary, HealthEvent, HealthReading
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError

_NAMES = ("libefml.so", "libefml.so.1", "libefml.so.1.0.0")
_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/local/efsmi/*/lib")
EFML_PATHS = tuple(f"{folder}/{name}" for folder in _FOLDERS for name in _NAMES)
"""Where Enflame's driver packages put the library, in the order in which they are tried."""


def create_library(spec: LibrarySpec, bus: PciBus, observe: CallObserver) -> CardLibrary:
    return EfmlLibrary(spec.library, bus, observe)


EfmlApi = NativeApi | NvmlShapedApi  # with the same methods


class EfmlLibrary:
    """The ``CardLibrary`` of Enflame GCUs.

    ``library`` is a path ("" searches ``EFML_PATHS``). The own API is used if it is exported and can be
    initialised, the NVML-shaped one otherwise.
    """

    def __init__(self, library: str, bus: PciBus, observe: CallObserver) -> None:
        self._path = library
        self._bus = bus
        self._observe = observe
        self._api: EfmlApi | None = None
        self._addresses: dict[int, str] = {}
        self._minors: dict[int, int] = {}

    def open(self) -> str:
        """Load the library and initialise the first of its APIs that can be; returns its path and the API's name.

        Raises:
            LibraryNotOpenError: there is no such file, or it is not an EFML library.
            DeviceError: no API can be initialised; names each with its code.
        """
        path = self._path or find_library(EFML_PATHS)
        if path is None:
            names, folders = " or ".join(_NAMES), ", ".join(_FOLDERS)
            raise LibraryNotOpenError(
                f"no {names} in {folders}; install the driver or name the file with --card-library efml=FILE"
            )
        library = CLibrary(str(path), self._observe)
        apis: list[EfmlApi] = [api(library) for api in (NativeApi, NvmlShapedApi) if api.is_exported_by(library)]
        if not apis:
            raise LibraryNotOpenError(f"{library.path!r} is no EFML library: it exports neither EfmlInit nor efmlInit")
        problems: list[str] = []
        for api in apis:
            try:
                api.open()
            except LibraryCallError as error:
                problems.append(str(error))
                continue
            self._api = api
            return f"{library.path}, {api.name}"
        raise DeviceError("; ".join(problems))

    def close(self) -> None:
        if self._api is not None:
            self._api.close()
            self._api = None

    def driver_version(self) -> str:
        return self._opened().driver_version()

    def card_count(self) -> int:
        return self._opened().card_count()

    def describe(self, slot: int) -> Card | LeftOutCard:
        api = self._opened()
        found = api.identify(slot)
        self._addresses[slot] = address = found.pci_address
        # The number of the device node; the slot if the library reports none, or one number twice.
        others = {minor for other, minor in self._minors.items() if other < slot}
        self._minors[slot] = index = slot if found.index in {NO_MINOR, *others} else found.index
        # A card without a uuid is distinguished from others by its serial or its place on the bus.
        uuid = found.uuid or found.serial or f"pci-{address or slot}"
        if reserved_by := api.reserved_by(slot):
            return LeftOutCard(index=index, uuid=uuid, reason=reserved_by)
        return msgspec.structs.replace(found, index=index, uuid=uuid, numa_node=self._bus.numa_node(address))

    def health(self, slot: int) -> HealthReading:
        """Lost if its PCI device is gone, else what the library reports."""
        if lost := self._bus.find_lost(self._addresses.get(slot, "")):
            return lost
        if not self._opened().is_healthy(slot):
            return HealthReading(healthy=False, reason="the library reports the card unhealthy")
        return HealthReading(healthy=True)

    def use(self, slot: int) -> CardUse:
        return self._opened().use(slot)

    def wait_event(self, timeout_s: float) -> HealthEvent | None:
        return self._opened().wait_event(timeout_s)

    def are_linked(self, slot_a: int, slot_b: int) -> bool:
        return self._bus.are_linked(self._addresses.get(slot_a, ""), self._addresses.get(slot_b, ""))

    def _opened(self) -> EfmlApi:
        if self._api is None:
            raise DeviceError("the EFML library is not open")
        return self._api
