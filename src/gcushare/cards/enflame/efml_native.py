"""EFML's own API: functions named ``Efml...`` that take a device's position.

Source: FACTS of the C ABI (``efml.h`` of Enflame's driver packages): every function returns an ``efmlReturn_t``,
0 is success. Nothing here decides; ``efml.EfmlLibrary`` does.
"""

from __future__ import annotations

import ctypes

from gcushare.cards.c_library import CheckedCalls, CLibrary, CodeTable, decode_text
from gcushare.cards.errors import LibraryCallError
from gcushare.cards.pci import pci_address
from gcushare.cards.ports import HealthEvent
from gcushare.core.cards import Card, CardUse

_TEXT_BYTES = 128  # MAX_CHAR_BUFF_LEN of efml.h
_UUID_BYTES = 16
_MIB = 1 << 20
_EVENT_BYTES = 4096  # an event is 136 bytes today; room for one that grows

_NOT_SUPPORTED = 3
_FUNCTION_NOT_FOUND = 9
_NO_DEVICE = 12
_DEPRECATED = 13
_TIMEOUT = 253
_CODES = CodeTable(
    not_exported=_FUNCTION_NOT_FOUND,
    unsupported=frozenset({_NOT_SUPPORTED, _FUNCTION_NOT_FOUND, _DEPRECATED}),
)
_EVENT_NAMES = {3: "suspended", 10: "reset started", 11: "reset finished", 20: "error id"}


class DeviceInfo(ctypes.Structure):
    """``efmlDevInfo_t`` of efml.h: names and PCI position; ``logic_id`` is the minor number."""

    _fields_ = (
        ("name", ctypes.c_char * _TEXT_BYTES),
        ("vendor_id", ctypes.c_uint32),
        ("device_id", ctypes.c_uint32),
        ("domain_id", ctypes.c_uint32),
        ("bus_id", ctypes.c_uint32),
        ("dev_id", ctypes.c_uint32),
        ("func_id", ctypes.c_uint32),
        ("logic_id", ctypes.c_uint32),
    )


class Memory(ctypes.Structure):
    """``efmlDevMemInfo_t``: the total in bytes, what is used in MiB."""

    _fields_ = (("total_bytes", ctypes.c_uint64), ("used_mib", ctypes.c_uint32))


class Process(ctypes.Structure):
    """One entry of ``efmlProcessInfo_t``: bytes of the card and of the host."""

    _fields_ = (("pid", ctypes.c_uint32), ("used_bytes", ctypes.c_uint64), ("system_bytes", ctypes.c_uint64))


class Temperature(ctypes.Structure):
    """``efmlDevThermalInfo_t``, in degrees Celsius."""

    _fields_ = (("chip", ctypes.c_float), ("memory", ctypes.c_float), ("board", ctypes.c_float))


class Power(ctypes.Structure):
    """``efmlDevPowerInfo_t``, in watts."""

    _fields_ = (("capability_watts", ctypes.c_float), ("current_watts", ctypes.c_float))


class EccStatus(ctypes.Structure):
    """``efmlEccStatus_t``: the memory's error correction, and how many errors of one bit and of two it counted."""

    _fields_ = (
        ("enabled", ctypes.c_bool),
        ("pending", ctypes.c_bool),
        ("blacklist_pending", ctypes.c_bool),
        ("single_bit_errors", ctypes.c_uint32),
        ("double_bit_errors", ctypes.c_uint32),
    )


class EfmlEvent(ctypes.Structure):
    """``efmlEvent_t``: its kind and a text."""

    _fields_ = (("id", ctypes.c_uint32), ("type", ctypes.c_int), ("message", ctypes.c_char * _TEXT_BYTES))


NO_MINOR = -1
"""The index of a card whose minor number a library does not report."""


class NativeApi:
    """EFML's own functions, with codes turned into errors and unsupported queries into None."""

    name = "own API"

    def __init__(self, library: CLibrary) -> None:
        self._library = library
        self._calls = CheckedCalls(library, _CODES, self._explain)

    @staticmethod
    def is_exported_by(library: CLibrary) -> bool:
        return library.exports("EfmlInit") and library.exports("EfmlGetDevCount")

    def open(self) -> None:
        """Initialise it, without waking sleeping cards."""
        self._calls.call("EfmlInit", ctypes.c_bool(False))

    def close(self) -> None:
        self._library.call("EfmlShutdown")  # returns void on some versions: there is no code to check

    def driver_version(self) -> str:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        self._calls.call("EfmlGetDriverVer", buffer)
        return decode_text(buffer.raw)

    def card_count(self) -> int:
        return self._calls.count("EfmlGetDevCount", _NO_DEVICE)

    def identify(self, slot: int) -> Card:
        """The card as the library describes it, without a uuid if it has none."""
        info = DeviceInfo()
        self._calls.call("EfmlGetDevInfo", ctypes.c_uint32(slot), ctypes.byref(info))
        serial = ctypes.create_string_buffer(_TEXT_BYTES)
        has_serial = self._calls.is_answered("EfmlGetDevSn", ctypes.c_uint32(slot), serial)
        return Card(
            index=info.logic_id,
            model=decode_text(info.name),
            uuid=self._uuid(slot),
            serial=decode_text(serial.raw) if has_serial else "",
            pci_address=pci_address(info.domain_id, info.bus_id, info.dev_id, info.func_id),
            memory_bytes=self._memory(slot).total_bytes,
        )

    def reserved_by(self, slot: int) -> str:
        """Return "": this API does not report whether another way of sharing uses the card."""
        return ""

    def is_healthy(self, slot: int) -> bool:
        """Ask the library's verdict; a library without one answers by answering at all."""
        healthy = ctypes.c_bool()
        for name in ("EfmlGetDevIsHealth", "EfmlGetDevHealth"):
            if self._calls.is_answered(name, ctypes.c_uint32(slot), ctypes.byref(healthy)):
                return healthy.value
        self._memory(slot)
        return True

    def use(self, slot: int) -> CardUse:
        """The driver's modes: ECC only."""
        position = ctypes.c_uint32(slot)
        temperature = self._calls.query("EfmlGetDevTempV2", position, into=Temperature())
        power = self._calls.query("EfmlGetDevPwr", position, into=Power())
        utilization = self._calls.query("EfmlGetDevDtuUsage", position, into=ctypes.c_float())
        ecc = self._calls.query("EfmlGetDevEccStatus", position, into=EccStatus())
        return CardUse(
            memory_used_bytes=self._memory(slot).used_mib * _MIB,
            temperature_celsius=None if temperature is None else temperature.chip,
            power_watts=None if power is None else power.current_watts,
            power_limit_watts=None if power is None else power.capability_watts,
            utilization_percent=None if utilization is None else utilization.value,
            ecc=None if ecc is None else ecc.enabled,
            processes=self._calls.processes("EfmlGetProcessInfo", position, Process),
        )

    def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """Wait for an event. Versions differ in how it names its device, so it asks for a poll of all cards."""
        buffer = ctypes.create_string_buffer(_EVENT_BYTES)
        try:
            self._calls.call("EfmlGetEvent", ctypes.c_int(round(timeout_s * 1000)), buffer)
        except LibraryCallError as error:
            if error.failure.code == _TIMEOUT:
                return None
            raise
        event = EfmlEvent.from_buffer(buffer)
        kind = _EVENT_NAMES.get(event.type, f"event {event.type}")
        reason = f"the library reported {kind} ({event.id}): {decode_text(event.message)}"
        return HealthEvent(uuid=None, reason=reason, critical=False)

    def _memory(self, slot: int) -> Memory:
        memory = Memory()
        self._calls.call("EfmlGetDevMem", ctypes.c_uint32(slot), ctypes.byref(memory))
        return memory

    def _uuid(self, slot: int) -> str:
        """Read the uuid: text on the versions seen, 16 raw bytes as the header would also allow; "" without one."""
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        if not self._calls.is_answered("EfmlGetDevUuid", ctypes.c_uint32(slot), buffer):
            return ""
        text = decode_text(buffer.raw)
        return text if text.isascii() and text.isprintable() else buffer.raw[:_UUID_BYTES].hex()

    def _explain(self, code: int) -> str:
        if not self._library.exports("EfmlErrorString"):
            return ""
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        return decode_text(buffer.raw) if self._library.call("EfmlErrorString", code, buffer) == 0 else ""
