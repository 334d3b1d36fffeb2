"""NVIDIA cards through NVML, bound by nvidia-ml-py (module ``pynvml``)."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import pynvml

from gcushare.cards.c_library import decode_text
from gcushare.cards.errors import LibraryCallError, LibraryMissingError
from gcushare.cards.nvidia.xid_health import APPLICATION_XIDS, event_reason, recovery_reason
from gcushare.cards.pci import PciBus, parse_pci_address
from gcushare.cards.ports import CallObserver, HealthEvent, HealthReading, LinkLevel
from gcushare.core.cards import Card, CardUse, LeftOutCard

_DEFAULT_LIBRARY = "libnvidia-ml.so.1"
_UNSUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_DATA,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
"""Codes with which a consumer card, a vGPU or an old driver says that it has no such query."""
_CODE_NAMES: dict[int, str] = {
    getattr(pynvml, name): name for name in sorted(dir(pynvml)) if name.startswith("NVML_ERROR_")
}
_HEALTH_EVENTS: int = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError


class NvmlLibrary:
    """The ``CardLibrary`` of NVIDIA GPUs.

    ``library`` is a path ("" leaves the search to the loader); ``extra_application_xids`` are XIDs beside
    ``APPLICATION_XIDS`` that an admin does not want to count as a sick card. One per process: ``pynvml`` keeps the
    loaded library in its module.
    """

    def __init__(
        self, library: str, bus: PciBus, observe: CallObserver, extra_application_xids: frozenset[int] = frozenset()
    ) -> None:
        self._path = library
        self._bus = bus
        self._observe = observe
        self._harmless_xids = APPLICATION_XIDS | extra_application_xids
        self._is_open = False
        self._addresses: dict[int, str] = {}
        self._event_set: Any = None

    def open(self) -> str:
        if self._path:
            try:
                # pynvml takes no path, but keeps and uses whatever library this name holds.
                pynvml.nvmlLib = ctypes.CDLL(self._path)
            except OSError as error:
                raise LibraryMissingError(f"{self._path!r} cannot be loaded: {error}") from error
        try:
            self._call("nvmlInit")
        except LibraryCallError as error:
            if error.code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
                raise LibraryMissingError(
                    f"the loader finds no {_DEFAULT_LIBRARY}; install the driver or name the file with --nvml-library"
                ) from error
            raise
        self._is_open = True
        return self._path or _DEFAULT_LIBRARY

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._call("nvmlShutdown")

    def driver_version(self) -> str:
        return str(self._call("nvmlSystemGetDriverVersion"))

    def card_count(self) -> int:
        return int(self._call("nvmlDeviceGetCount"))

    def describe(self, slot: int) -> Card | LeftOutCard:
        handle = self._handle(slot)
        uuid = str(self._call("nvmlDeviceGetUUID", handle))
        minor = self._query("nvmlDeviceGetMinorNumber", handle)
        index = slot if minor is None else int(minor)
        pci = self._query("nvmlDeviceGetPciInfo", handle)
        address = self._addresses[slot] = "" if pci is None else parse_pci_address(_text(pci.busId))
        reserved_by = self._reserved_by(handle)
        if reserved_by:
            return LeftOutCard(index=index, uuid=uuid, reason=reserved_by)
        memory = self._query("nvmlDeviceGetMemoryInfo", handle)
        if memory is None:
            return LeftOutCard(index=index, uuid=uuid, reason="the driver reports no memory size for this card")
        return Card(
            index=index,
            uuid=uuid,
            memory_bytes=int(memory.total),
            model=_text(self._query("nvmlDeviceGetName", handle)),
            serial=_text(self._query("nvmlDeviceGetSerial", handle)),
            pci_address=address,
            numa_node=self._bus.numa_node(address),
        )

    def health(self, slot: int) -> HealthReading:
        address = self._addresses.get(slot, "")
        if self._bus.has_card(address) is False:
            reason = f"the card fell off the bus: PCI device {address} is gone"
            return HealthReading(healthy=False, reason=reason, conclusive=True, lost=True)
        handle = self._handle(slot)
        self._query("nvmlDeviceGetMemoryInfo", handle)  # a card that is lost raises here
        reason = self._recovery_reason(handle)
        if not reason:
            rows = self._query("nvmlDeviceGetRemappedRows", handle)
            if rows is not None and rows[3]:
                reason = "a row of its memory could not be remapped: the card needs replacement"
        return HealthReading(healthy=not reason, reason=reason, conclusive=bool(reason))

    def use(self, slot: int) -> CardUse:
        handle = self._handle(slot)
        memory = self._query("nvmlDeviceGetMemoryInfo", handle)
        temperature = self._query("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU)
        milliwatts = self._query("nvmlDeviceGetPowerUsage", handle)
        utilization = self._query("nvmlDeviceGetUtilizationRates", handle)
        return CardUse(
            memory_used_bytes=None if memory is None else int(memory.used),
            temperature_celsius=None if temperature is None else float(temperature),
            power_watts=None if milliwatts is None else milliwatts / 1000,
            utilization_percent=None if utilization is None else float(utilization.gpu),
            processes=self._processes(handle),
        )

    def wait_event(self, timeout_s: float) -> HealthEvent | None:
        if self._event_set is None:
            self._event_set = self._register_events()
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                event = self._call("nvmlEventSetWait", self._event_set, max(1, round(left_s * 1000)))
            except LibraryCallError as error:
                if error.code == pynvml.NVML_ERROR_TIMEOUT:
                    return None
                raise
            reason = event_reason(event.eventType, event.eventData, self._harmless_xids)
            if reason:
                uuid = self._query("nvmlDeviceGetUUID", event.device)
                return HealthEvent(uuid=uuid, reason=reason, critical=uuid is not None)
        return None

    def link_level(self, slot_a: int, slot_b: int) -> LinkLevel | None:
        handles = (self._handle(slot_a), self._handle(slot_b))
        fabric = self._query("nvmlDeviceGetP2PStatus", *handles, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
        if fabric == pynvml.NVML_P2P_STATUS_OK:
            return LinkLevel.FABRIC
        level = self._query("nvmlDeviceGetTopologyCommonAncestor", *handles)
        levels = {
            pynvml.NVML_TOPOLOGY_INTERNAL: LinkLevel.BOARD,
            pynvml.NVML_TOPOLOGY_SINGLE: LinkLevel.SWITCH,
            pynvml.NVML_TOPOLOGY_MULTIPLE: LinkLevel.ROOT,
            pynvml.NVML_TOPOLOGY_HOSTBRIDGE: LinkLevel.ROOT,
            pynvml.NVML_TOPOLOGY_NODE: LinkLevel.NUMA,
            pynvml.NVML_TOPOLOGY_SYSTEM: LinkLevel.SYSTEM,
        }
        if level in levels:
            return levels[level]
        return self._bus.link_level(self._addresses.get(slot_a, ""), self._addresses.get(slot_b, ""))

    def _handle(self, slot: int) -> Any:
        return self._call("nvmlDeviceGetHandleByIndex", slot)

    def _reserved_by(self, handle: Any) -> str:
        """Why the card is in use by another way of sharing; "" when it is not."""
        modes = self._query("nvmlDeviceGetMigMode", handle)
        return "MIG mode is on" if modes is not None and modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE else ""

    def _recovery_reason(self, handle: Any) -> str:
        values = self._query("nvmlDeviceGetFieldValues", handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
            return ""
        return recovery_reason(int(values[0].value.uiVal))

    def _processes(self, handle: Any) -> dict[int, int] | None:
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
            entries = self._query(name, handle)
            if entries is not None:
                return {int(entry.pid): int(entry.usedGpuMemory or 0) for entry in entries}
        return None

    def _register_events(self) -> Any:
        """Ask for the health events of every card that has them.

        Raises:
            LibraryCallError: with ``is_unsupported`` when no card has any.
        """
        event_set = self._call("nvmlEventSetCreate")
        registered = False
        for slot in range(self.card_count()):
            try:
                handle = self._handle(slot)
                wanted = (self._query("nvmlDeviceGetSupportedEventTypes", handle) or 0) & _HEALTH_EVENTS
                if wanted:
                    self._call("nvmlDeviceRegisterEvents", handle, wanted, event_set)
                    registered = True
            except LibraryCallError:
                continue  # this card is polled like the rest, and polling says what is wrong with it
        if not registered:
            code = pynvml.NVML_ERROR_NOT_SUPPORTED
            raise LibraryCallError("nvmlDeviceRegisterEvents", code, _CODE_NAMES[code], is_unsupported=True)
        return event_set

    def _query(self, name: str, *arguments: Any) -> Any:
        """Make a call that not every card or driver supports; None where it does not."""
        try:
            return self._call(name, *arguments)
        except LibraryCallError as error:
            if error.is_unsupported:
                return None
            raise

    def _call(self, name: str, *arguments: Any) -> Any:
        self._observe(name)
        try:
            return getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            raise LibraryCallError(
                name,
                error.value,
                _CODE_NAMES.get(error.value, "unknown code"),
                detail=str(error),
                is_unsupported=error.value in _UNSUPPORTED,
                is_lost=error.value == pynvml.NVML_ERROR_GPU_IS_LOST,
            ) from error
        except UnicodeDecodeError as error:
            raise LibraryCallError(name, -1, "undecodable answer", detail=repr(error.object)) from error


def _text(value: str | bytes | None) -> str:
    return decode_text(value) if isinstance(value, bytes) else value or ""
