"""NVIDIA cards through NVML, bound by nvidia-ml-py (module ``pynvml``): what they are, and what makes one unhealthy."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable
from typing import Any

import pynvml

from gcushare.cards.c_library import decode_text
from gcushare.cards.errors import CallFailure, LibraryCallError, LibraryMissingError
from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.pci import PciBus, parse_pci_address
from gcushare.cards.ports import CallObserver, CardLibrary, HealthEvent, HealthReading, LinkLevel
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
"""Codes with which a consumer card, a vGPU or an old driver answers a query that it does not have."""
_CODE_NAMES: dict[int, str] = {
    getattr(pynvml, name): name for name in sorted(dir(pynvml)) if name.startswith("NVML_ERROR_")
}
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that a faulty program causes on a sound card: graphics engine and memory page faults, a stopped or cleaned-up
channel, a video processor exception, a context switch timeout."""

_RECOVERY_ACTIONS = {
    1: "a reset of the card",
    2: "a reboot of the node",
    3: "its peer-to-peer traffic to be drained",
    4: "the card to be drained and reset",
    5: "a recovery of the IMEX domain",
    6: "a bus reset",
    7: "a reboot of the system",
}
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; 0 is none. An action we do not know is still one."""
_COMPUTE_MODES = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive-thread",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive-process",
}
_UNKNOWN_STATE = 32
"""NVML_PSTATE_UNKNOWN."""
_OLDEST_LIMITED = (7, 0)
_OLDEST_CUDA = (11, 5)
_HEALTH_EVENTS: int = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError


def create_library(spec: LibrarySpec, bus: PciBus, observe: CallObserver) -> CardLibrary:
    """Create the binding of NVML; nothing is loaded before ``open``."""
    return NvmlLibrary(spec.library, bus, observe, frozenset(spec.extra_application_xids))


class NvmlLibrary:
    """The ``CardLibrary`` of NVIDIA GPUs.

    ``library`` is a path ("" leaves the search to the loader); ``extra_application_xids`` are XIDs in
    addition to ``APPLICATION_XIDS`` that an admin does not want to make a card unhealthy. One per process: ``pynvml``
    keeps the loaded library in its module.
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
        self._sampled_until: dict[int, int] = {}
        """The driver's timestamp (microseconds) of the newest sample of processes' utilization, by slot."""
        self._event_set: Any = None
        self._uuids: dict[int | None, str | None] = {}
        """Of the cards with registered events, by their handles' addresses: a lost card does not report its uuid."""

    def open(self) -> str:
        """Load and initialise NVML; returns the name of what was loaded.

        Raises:
            LibraryMissingError: the loader finds no such library.
            LibraryCallError: it cannot be initialised, for example because no driver is loaded.
        """
        if self._path:
            try:
                # pynvml takes no path, but keeps and uses whatever library this name holds.
                pynvml.nvmlLib = ctypes.CDLL(self._path)
            except OSError as error:
                raise LibraryMissingError(f"{self._path!r} cannot be loaded: {error}") from error
        try:
            self._call("nvmlInit")
        except LibraryCallError as error:
            if error.failure.code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
                raise LibraryMissingError(
                    f"the loader finds no {_DEFAULT_LIBRARY}; install the driver or name the file with "
                    "--card-library nvml=FILE"
                ) from error
            raise
        self._is_open = True
        return self._path or _DEFAULT_LIBRARY

    def close(self) -> None:
        """Shut NVML down if it was opened."""
        if self._is_open:
            self._is_open = False
            self._call("nvmlShutdown")

    def driver_version(self) -> str:
        """The driver's version as text."""
        return str(self._call("nvmlSystemGetDriverVersion"))

    def card_count(self) -> int:
        """How many devices NVML lists."""
        return int(self._call("nvmlDeviceGetCount"))

    def describe(self, slot: int) -> Card | LeftOutCard:
        """The card at a position of NVML's list, or why it is not shared (MIG, no memory size); memory in bytes.

        Raises:
            LibraryCallError: one of the calls failed.
        """
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
            limit_problem=self._limit_problem(handle),
        )

    def health(self, slot: int) -> HealthReading:
        """Read a card's health: PCI bus, whether NVML reaches it, the driver's recovery action, failed row remapping.

        Raises:
            LibraryCallError: NVML did not answer; ``is_lost`` if it no longer reaches the card.
        """
        if lost := self._bus.find_lost(self._addresses.get(slot, "")):
            return lost
        handle = self._handle(slot)
        self._query("nvmlDeviceGetMemoryInfo", handle)  # a card that is lost raises here
        reason = self._recovery_reason(handle)
        if not reason:
            rows = self._query("nvmlDeviceGetRemappedRows", handle)
            if rows is not None and rows[3]:
                reason = "a row of its memory could not be remapped: the card needs replacement"
        return HealthReading(healthy=not reason, reason=reason, conclusive=bool(reason))

    def use(self, slot: int) -> CardUse:
        """What the card does, and how the driver runs it; None for a query that the card does not support."""
        handle = self._handle(slot)
        memory = self._query("nvmlDeviceGetMemoryInfo", handle)
        temperature = self._query("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU)
        milliwatts = self._query("nvmlDeviceGetPowerUsage", handle)
        utilization = self._query("nvmlDeviceGetUtilizationRates", handle)
        fan = self._query("nvmlDeviceGetFanSpeed", handle)
        state = self._query("nvmlDeviceGetPerformanceState", handle)
        ecc = self._query("nvmlDeviceGetEccMode", handle)
        mig = self._query("nvmlDeviceGetMigMode", handle)
        persistence = self._query("nvmlDeviceGetPersistenceMode", handle)
        limit_milliwatts = self._query("nvmlDeviceGetPowerManagementLimit", handle)
        processes = self._processes(handle)
        return CardUse(
            memory_used_bytes=None if memory is None else int(memory.used),
            temperature_celsius=None if temperature is None else float(temperature),
            power_watts=None if milliwatts is None else milliwatts / 1000,
            utilization_percent=None if utilization is None else float(utilization.gpu),
            fan_percent=None if fan is None else float(fan),
            performance_state=None if state in (None, _UNKNOWN_STATE) else int(state),
            compute_mode=_COMPUTE_MODES.get(self._query("nvmlDeviceGetComputeMode", handle)),
            ecc=None if ecc is None else ecc[0] == pynvml.NVML_FEATURE_ENABLED,
            mig=None if mig is None else mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
            persistence=None if persistence is None else persistence == pynvml.NVML_FEATURE_ENABLED,
            power_limit_watts=None if limit_milliwatts is None else limit_milliwatts / 1000,
            cuda_version=self._cuda_version(),
            processes=processes,
            peaks=self._peaks(handle, processes or {}),
            process_utilization=None if processes is None else self._process_utilization(handle, slot, processes),
            process_names=None if processes is None else self._process_names(processes),
        )

    def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """The next event within ``timeout_s`` seconds that makes a card unhealthy; harmless XIDs are skipped.

        Raises:
            LibraryCallError: with ``is_unsupported`` if no card has such events.
        """
        if self._event_set is None:
            self._event_set = self._register_events()
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                event = self._call("nvmlEventSetWait", self._event_set, max(1, round(left_s * 1000)))
            except LibraryCallError as error:
                if error.failure.code == pynvml.NVML_ERROR_TIMEOUT:
                    return None
                raise
            reason = _event_reason(event.eventType, event.eventData, self._harmless_xids)
            if reason:
                uuid = self._uuids.get(_address(event.device))
                return HealthEvent(uuid=uuid, reason=reason, critical=uuid is not None)
        return None

    def link_level(self, slot_a: int, slot_b: int) -> LinkLevel | None:
        """How two cards reach each other: NVLink, else NVML's topology, else the PCI bus."""
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

    def _limit_problem(self, handle: Any) -> str:
        """Why MPS cannot limit memory on this card; "" if it can, or if the driver does not report it."""
        capability = self._query("nvmlDeviceGetCudaComputeCapability", handle)
        if capability is not None and tuple(capability) < _OLDEST_LIMITED:
            return f"MPS limits memory from Volta (compute capability 7.0) on, and this card has {_dotted(capability)}"
        version = self._cuda_version()
        if version is not None and tuple(map(int, version.split("."))) < _OLDEST_CUDA:
            return f"MPS limits memory from drivers for CUDA 11.5 on, and this one is for CUDA {version}"
        if self._query("nvmlDeviceGetComputeMode", handle) == pynvml.NVML_COMPUTEMODE_PROHIBITED:
            return "its compute mode prohibits every process (nvidia-smi -c)"
        return ""

    def _cuda_version(self) -> str | None:
        """The newest CUDA that the driver runs; NVML has it as 1000 * major + 10 * minor."""
        version = self._query("nvmlSystemGetCudaDriverVersion")
        return None if version is None else f"{int(version) // 1000}.{int(version) % 1000 // 10}"

    def _recovery_reason(self, handle: Any) -> str:
        values = self._query("nvmlDeviceGetFieldValues", handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
            return ""
        return _describe_recovery(int(values[0].value.uiVal))

    def _processes(self, handle: Any) -> dict[int, int] | None:
        """The processes with a context of their own, and those that compute through MPS, which has a list apart."""
        found = self._listed(handle, "nvmlDeviceGetComputeRunningProcesses")
        if found is None:
            return None
        for pid, used in (self._listed(handle, "nvmlDeviceGetMPSComputeRunningProcesses") or {}).items():
            found[pid] = max(found.get(pid, 0), used)  # one that is in both lists is one process
        return found

    def _listed(self, handle: Any, query: str) -> dict[int, int] | None:
        for version in ("_v3", "_v2"):
            entries = self._query(query + version, handle)
            if entries is not None:
                return {int(entry.pid): int(entry.usedGpuMemory or 0) for entry in entries}
        return None

    def _peaks(self, handle: Any, processes: Iterable[int]) -> dict[int, int] | None:
        """The most that each process ever had, if an admin turned the driver's accounting on (nvidia-smi -am 1)."""
        if self._query("nvmlDeviceGetAccountingMode", handle) != pynvml.NVML_FEATURE_ENABLED:
            return None
        found: dict[int, int] = {}
        for pid in processes:
            try:
                stats = self._query("nvmlDeviceGetAccountingStats", handle, pid)
            except LibraryCallError as error:
                if error.failure.code != pynvml.NVML_ERROR_NOT_FOUND:  # it was started before accounting was
                    raise
                continue
            if stats is not None and stats.maxMemoryUsage is not None:
                found[pid] = int(stats.maxMemoryUsage)
        return found

    def _process_utilization(self, handle: Any, slot: int, processes: Iterable[int]) -> dict[int, float] | None:
        """Percents of the chip's time by process since the poll before; None if the card does not sample processes.

        Source: nvml.h, ``nvmlDeviceGetProcessUtilization``: it returns samples newer than a timestamp, and only of
        processes that used the chip. The process ids of samples are not always those of processes on the card, so only
        ids that the card lists count.
        """
        found = dict.fromkeys(processes, 0.0)
        try:
            samples = self._query("nvmlDeviceGetProcessUtilization", handle, self._sampled_until.get(slot, 0))
        except LibraryCallError as error:
            if error.failure.code in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS):  # no sample since then
                return found
            if error.failure.code == pynvml.NVML_ERROR_INSUFFICIENT_SIZE:  # processes came between its two calls
                return None
            raise
        if samples is None:
            return None
        for sample in sorted(samples, key=lambda each: int(each.timeStamp)):
            self._sampled_until[slot] = int(sample.timeStamp)
            if sample.pid in found:
                found[int(sample.pid)] = float(sample.smUtil)
        return found

    def _process_names(self, processes: Iterable[int]) -> dict[int, str] | None:
        """The program of each process, as the driver reads it from /proc; without those that ended."""
        found: dict[int, str] = {}
        for pid in processes:
            try:
                name = self._query("nvmlSystemGetProcessName", pid)
            except LibraryCallError as error:
                if error.failure.code in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT):
                    continue
                raise
            if name is None:
                return None
            found[pid] = _text(name)
        return found

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
                    self._uuids[_address(handle)] = self._query("nvmlDeviceGetUUID", handle)
                    self._call("nvmlDeviceRegisterEvents", handle, wanted, event_set)
                    registered = True
            except LibraryCallError:
                continue  # this card is polled like the others, which reports what is wrong with it
        if not registered:
            code = pynvml.NVML_ERROR_NOT_SUPPORTED
            raise LibraryCallError(
                CallFailure("nvmlDeviceRegisterEvents", code, _CODE_NAMES[code], is_unsupported=True)
            )
        return event_set

    def _query(self, name: str, *arguments: Any) -> Any:
        """Make a call that not every card or driver supports; None if it is not supported."""
        try:
            return self._call(name, *arguments)
        except LibraryCallError as error:
            if error.failure.is_unsupported:
                return None
            raise

    def _call(self, name: str, *arguments: Any) -> Any:
        self._observe(name)
        try:
            return getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            raise LibraryCallError(
                CallFailure(
                    name,
                    error.value,
                    _CODE_NAMES.get(error.value, "unknown code"),
                    detail=str(error),
                    is_unsupported=error.value in _UNSUPPORTED,
                    is_lost=error.value == pynvml.NVML_ERROR_GPU_IS_LOST,
                )
            ) from error
        except UnicodeDecodeError as error:
            raise LibraryCallError(CallFailure(name, -1, "undecodable answer", detail=repr(error.object))) from error


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _dotted(capability: Iterable[int]) -> str:
    return ".".join(map(str, capability))


def _text(value: str | bytes | None) -> str:
    return decode_text(value) if isinstance(value, bytes) else value or ""


def _event_reason(event_type: int, event_data: int, harmless_xids: frozenset[int]) -> str:
    """The reason why an event makes its card unhealthy; "" if it does not."""
    if event_type & pynvml.nvmlEventTypeDoubleBitEccError:
        return "uncorrectable memory error (double-bit ECC)"
    if event_type & pynvml.nvmlEventTypeXidCriticalError and event_data not in harmless_xids:
        return f"critical XID {event_data}"
    return ""


def _describe_recovery(action: int) -> str:
    """Say what the driver asks for before the card may be used again; "" when it asks for nothing."""
    if action == 0:
        return ""
    return f"the driver asks for {_RECOVERY_ACTIONS.get(action, f'recovery action {action}')}"
