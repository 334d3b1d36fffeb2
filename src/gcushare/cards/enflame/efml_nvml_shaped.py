"""EFML's second API, of NVML's shape: functions named ``efml...`` that take a device's handle.

Newer libraries export it in addition to the own API, or instead. Source: FACTS of the C ABI (``efml.h``); its codes are
NVML's numbers, not those of the own API.
"""

from __future__ import annotations

import ctypes

from gcushare.cards.c_library import CheckedCalls, CLibrary, CodeTable, decode_text
from gcushare.cards.enflame.efml_native import NO_MINOR
from gcushare.cards.errors import CallFailure, LibraryCallError
from gcushare.cards.pci import parse_pci_address
from gcushare.cards.ports import HealthEvent
from gcushare.core.cards import Card, CardUse

_TEXT_BYTES = 128
_GCU_SENSOR = 0
_PROCESSES = "efmlDeviceGetComputeRunningProcesses_v3"

_NOT_SUPPORTED = 3
_FUNCTION_NOT_FOUND = 13
_GCU_IS_LOST = 15
_DEPRECATED = 26
_GCU_NOT_FOUND = 28
_CODES = CodeTable(
    not_exported=_FUNCTION_NOT_FOUND,
    unsupported=frozenset({_NOT_SUPPORTED, _FUNCTION_NOT_FOUND, _DEPRECATED}),
    lost=frozenset({_GCU_IS_LOST}),
)


class ShapedMemory(ctypes.Structure):
    """``efmlMemory_t``, in bytes."""

    _fields_ = (
        ("total_bytes", ctypes.c_ulonglong),
        ("free_bytes", ctypes.c_ulonglong),
        ("used_bytes", ctypes.c_ulonglong),
    )


class ShapedPci(ctypes.Structure):
    """``efmlPciInfo_t``; ``bus_id`` is the address as text."""

    _fields_ = (
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("function", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


class ShapedUtilization(ctypes.Structure):
    """``efmlUtilization_t``, in percent."""

    _fields_ = (("gcu_percent", ctypes.c_uint), ("memory_percent", ctypes.c_uint))


class ShapedProcess(ctypes.Structure):
    """``efmlProcessInfo_t`` of this API: the bytes of one process."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gcu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class NvmlShapedApi:
    """EFML's NVML-shaped functions, with codes turned into errors and unsupported queries into None."""

    name = "NVML-shaped API"

    def __init__(self, library: CLibrary) -> None:
        self._library = library
        self._calls = CheckedCalls(library, _CODES, self._explain)

    @staticmethod
    def is_exported_by(library: CLibrary) -> bool:
        return library.exports("efmlInit") and library.exports("efmlDeviceGetHandleByIndex_v2")

    def open(self) -> None:
        self._calls.call("efmlInit_v2" if self._library.exports("efmlInit_v2") else "efmlInit")

    def close(self) -> None:
        self._calls.call("efmlShutdown")

    def driver_version(self) -> str:
        """The driver's version; "" if this library does not export the query."""
        return self._text("efmlSystemGetDriverVersion")

    def card_count(self) -> int:
        return self._calls.count("efmlDeviceGetCount_v2", _GCU_NOT_FOUND)

    def identify(self, slot: int) -> Card:
        """The card as the library describes it."""
        handle = self._handle(slot)
        pci = self._calls.query("efmlDeviceGetPciInfo_v3", handle, into=ShapedPci())
        minor = self._calls.query("efmlDeviceGetMinorNumber", handle, into=ctypes.c_uint())
        return Card(
            index=NO_MINOR if minor is None else minor.value,
            model=self._text("efmlDeviceGetName", handle),
            uuid=self._text("efmlDeviceGetUUID", handle),
            serial=self._text("efmlDeviceGetSerial", handle),
            pci_address="" if pci is None else parse_pci_address(decode_text(pci.bus_id)),
            memory_bytes=self._memory(handle).total_bytes,
        )

    def reserved_by(self, slot: int) -> str:
        """Why the card is in use by another way of sharing; "" if it is not."""
        return "MIG mode is on" if self._mig(self._handle(slot)) else ""

    def is_healthy(self, slot: int) -> bool:
        """Whether the card answers: this API reports no health of its own."""
        self._memory(self._handle(slot))
        return True

    def use(self, slot: int) -> CardUse:
        """The driver's modes: fan and MIG."""
        handle = self._handle(slot)
        sensor = ctypes.c_int(_GCU_SENSOR)
        temperature = self._calls.query("efmlDeviceGetTemperature", handle, sensor, into=ctypes.c_int())
        milliwatts = self._calls.query("efmlDeviceGetPowerUsage", handle, into=ctypes.c_uint())
        utilization = self._calls.query("efmlDeviceGetUtilizationRates", handle, into=ShapedUtilization())
        fan = self._calls.query("efmlDeviceGetFanSpeed", handle, into=ctypes.c_uint())
        return CardUse(
            memory_used_bytes=self._memory(handle).used_bytes,
            temperature_celsius=None if temperature is None else float(temperature.value),
            power_watts=None if milliwatts is None else milliwatts.value / 1000,
            utilization_percent=None if utilization is None else float(utilization.gcu_percent),
            fan_percent=None if fan is None else float(fan.value),
            mig=self._mig(handle),
            processes=self._calls.processes(_PROCESSES, handle, ShapedProcess),
        )

    def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """Refuse: this API has no events."""
        raise LibraryCallError(CallFailure("efmlEventSetWait", _FUNCTION_NOT_FOUND, is_unsupported=True))

    def _handle(self, slot: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._calls.call("efmlDeviceGetHandleByIndex_v2", ctypes.c_uint(slot), ctypes.byref(handle))
        return handle

    def _mig(self, handle: ctypes.c_void_p) -> bool | None:
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        has = self._calls.is_answered("efmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending))
        return bool(current.value) if has else None

    def _memory(self, handle: ctypes.c_void_p) -> ShapedMemory:
        memory = ShapedMemory()
        self._calls.call("efmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        return memory

    def _text(self, name: str, *handle: ctypes.c_void_p) -> str:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        has = self._calls.is_answered(name, *handle, buffer, ctypes.c_uint(_TEXT_BYTES))
        return decode_text(buffer.raw) if has else ""

    def _explain(self, code: int) -> str:
        if not self._library.exports("efmlErrorString"):
            return ""
        return self._library.call_text("efmlErrorString", ctypes.c_int(code))
