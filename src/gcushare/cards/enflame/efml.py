"""Enflame cards through libefml: which library, which of its two APIs, and what a card's answers mean."""

from __future__ import annotations

from typing import Protocol

from gcushare.cards.c_library import CLibrary, find_library
from gcushare.cards.enflame.efml_native import DeviceIdentity, NativeApi
from gcushare.cards.enflame.efml_nvml_shaped import NvmlShapedApi
from gcushare.cards.errors import LibraryCallError, LibraryMissingError
from gcushare.cards.pci import PciBus
from gcushare.cards.ports import CallObserver, HealthEvent, HealthReading, LinkLevel
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError

_NAMES = ("libefml.so", "libefml.so.1", "libefml.so.1.0.0")
_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/local/efsmi/*/lib")
EFML_PATHS = tuple(f"{folder}/{name}" for folder in _FOLDERS for name in _NAMES)
"""Where Enflame's driver packages put the library, in the order in which they are tried."""


class EfmlApi(Protocol):
    """What the two APIs of libefml have in common; every method may raise ``LibraryCallError``."""

    name: str

    def open(self) -> None: ...

    def close(self) -> None: ...

    def driver_version(self) -> str: ...

    def card_count(self) -> int: ...

    def identify(self, slot: int) -> DeviceIdentity: ...

    def reserved_by(self, slot: int) -> str: ...

    def is_healthy(self, slot: int) -> bool: ...

    def use(self, slot: int) -> CardUse: ...

    def wait_event(self, timeout_s: float) -> HealthEvent | None: ...


class EfmlLibrary:
    """The ``CardLibrary`` of Enflame GCUs.

    ``library`` is a path ("" searches ``EFML_PATHS``). The own API is taken where it is exported and can be
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
        library = CLibrary(self._path or _found_path(), self._observe)
        apis: list[EfmlApi] = [api(library) for api in (NativeApi, NvmlShapedApi) if api.is_exported_by(library)]
        if not apis:
            raise LibraryMissingError(f"{library.path!r} is no EFML library: it exports neither EfmlInit nor efmlInit")
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
        identity = api.identify(slot)
        self._addresses[slot] = identity.pci_address
        index = self._minor(slot, identity.minor)
        # A card without a uuid is distinguished from others by its serial or its place on the bus.
        uuid = identity.uuid or identity.serial or f"pci-{identity.pci_address or slot}"
        reserved_by = api.reserved_by(slot)
        if reserved_by:
            return LeftOutCard(index=index, uuid=uuid, reason=reserved_by)
        return Card(
            index=index,
            uuid=uuid,
            memory_bytes=identity.memory_bytes,
            model=identity.model,
            serial=identity.serial,
            pci_address=identity.pci_address,
            numa_node=self._bus.numa_node(identity.pci_address),
        )

    def health(self, slot: int) -> HealthReading:
        address = self._addresses.get(slot, "")
        if self._bus.has_card(address) is False:
            reason = f"the card fell off the bus: PCI device {address} is gone"
            return HealthReading(healthy=False, reason=reason, conclusive=True, lost=True)
        if not self._opened().is_healthy(slot):
            return HealthReading(healthy=False, reason="the library reports the card unhealthy")
        return HealthReading(healthy=True)

    def use(self, slot: int) -> CardUse:
        return self._opened().use(slot)

    def wait_event(self, timeout_s: float) -> HealthEvent | None:
        return self._opened().wait_event(timeout_s)

    def link_level(self, slot_a: int, slot_b: int) -> LinkLevel | None:
        return self._bus.link_level(self._addresses.get(slot_a, ""), self._addresses.get(slot_b, ""))

    def _opened(self) -> EfmlApi:
        if self._api is None:
            raise DeviceError("the EFML library is not open")
        return self._api

    def _minor(self, slot: int, reported: int | None) -> int:
        """The number of the device node; the slot where the library reports none, or one number twice."""
        others = {minor for other, minor in self._minors.items() if other < slot}
        minor = reported if reported is not None and reported not in others else slot
        self._minors[slot] = minor
        return minor


def _found_path() -> str:
    path = find_library(EFML_PATHS)
    if path is None:
        names, folders = " or ".join(_NAMES), ", ".join(_FOLDERS)
        raise LibraryMissingError(f"no {names} in {folders}; install the driver or name the file with --efml-library")
    return str(path)
