"""NVIDIA cards through NVML, bound by nvidia-ml-py (module ``pynvml``): what they are, and what makes one unhealthy."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Any

import pynvml

from gcushare.cards.errors import CallFailure, LibraryCallError, LibraryNotOpenError
from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.nvidia import nvml_limits
from gcushare.cards.nvidia.nvml_processes import CODE_NAMES, NvmlCalls, NvmlProcesses, text_of
from gcushare.cards.nvidia.xids import APPLICATION_XIDS, HEALTH_EVENTS, why_unhealthy
from gcushare.cards.pci import PciBus, parse_pci_address
from gcushare.cards.ports import CallObserver, CardLibrary, GroupMemory, HealthEvent, HealthReading
from gcushare.cards.unified_memory import NOT_SET, offered_bytes
from gcushare.core.cards import Card, CardUse, LeftOutCard

_DEFAULT_LIBRARY = "libnvidia-ml.so.1"
_RECOVERY_ACTIONS = {
    1: "a reset of the card",
    2: "a reboot of the node",
    3: "its peer-to-peer traffic to be drained",
    4: "the card to be drained and reset",
    5: "a recovery of the IMEX domain",
    6: "a bus reset",
    7: "a reboot of the system",
}
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; 0 means none. An unknown action counts too."""
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


def create_library(spec: LibrarySpec, bus: PciBus, observe: CallObserver) -> CardLibrary:
    return NvmlLibrary(
        spec.library, bus, observe, frozenset(spec.extra_application_xids), unified_memory=spec.unified_memory
    )


class NvmlLibrary:
    """The ``CardLibrary`` of NVIDIA GPUs.

    ``library`` is a path ("" leaves the search to the loader); ``extra_application_xids`` are XIDs in
    addition to ``APPLICATION_XIDS`` that an admin does not want to make a card unhealthy; ``unified_memory`` is as in
    ``LibrarySpec``. One per process: ``pynvml``
    keeps the loaded library in its module.
    """

    def __init__(
        self,
        library: str,
        bus: PciBus,
        observe: CallObserver,
        extra_application_xids: frozenset[int] = frozenset(),
        *,
        unified_memory: int = 0,
    ) -> None:
        self._path = library
        self._bus = bus
        self._calls = NvmlCalls(observe)
        self._processes = NvmlProcesses(self._calls)
        self._harmless_xids = APPLICATION_XIDS | extra_application_xids
        self._unified = unified_memory
        self._reserved: dict[str, int] = {}
        self._is_open = False
        self._addresses: dict[int, str] = {}
        self._event_set: Any = None
        self._uuids: dict[int | None, str | None] = {}
        """Of the cards with registered events, by their handles' addresses: a lost card does not report its uuid."""

    def open(self) -> str:
        """Load and initialise NVML; returns the name of what was loaded.

        Raises:
            LibraryNotOpenError: the loader finds no such library.
            LibraryCallError: it cannot be initialised, for example because no driver is loaded.
        """
        if self._path:
            try:
                # pynvml takes no path, but keeps and uses whatever library this name holds.
                pynvml.nvmlLib = ctypes.CDLL(self._path)
            except OSError as error:
                raise LibraryNotOpenError(f"{self._path!r} cannot be loaded: {error}") from error
        try:
            self._calls.call("nvmlInit")
        except LibraryCallError as error:
            if error.failure.code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
                raise LibraryNotOpenError(
                    f"the loader finds no {_DEFAULT_LIBRARY}; install the driver or name the file with "
                    "--card-library nvml=FILE"
                ) from error
            raise
        self._is_open = True
        return self._path or _DEFAULT_LIBRARY

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._calls.call("nvmlShutdown")

    def driver_version(self) -> str:
        return str(self._calls.call("nvmlSystemGetDriverVersion"))

    def card_count(self) -> int:
        return int(self._calls.call("nvmlDeviceGetCount"))

    def describe(self, slot: int) -> Card | LeftOutCard:
        handle = self._handle(slot)
        uuid = str(self._calls.call("nvmlDeviceGetUUID", handle))
        minor = self._calls.query("nvmlDeviceGetMinorNumber", handle)
        index = slot if minor is None else int(minor)
        pci = self._calls.query("nvmlDeviceGetPciInfo", handle)
        address = self._addresses[slot] = "" if pci is None else parse_pci_address(text_of(pci.busId))
        mig = self._calls.query("nvmlDeviceGetMigMode", handle)
        if mig is not None and mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
            return LeftOutCard(index=index, uuid=uuid, reason="MIG mode is on")
        memory = self._calls.query("nvmlDeviceGetMemoryInfo", handle)
        total = offered_bytes(self._unified) if memory is None else int(memory.total)
        if not total:
            return LeftOutCard(index=index, uuid=uuid, reason=NOT_SET)
        return Card(
            index=index,
            uuid=uuid,
            memory_bytes=total,
            driver_bytes=0 if memory is None else self._driver_bytes(uuid, handle),
            model=text_of(self._calls.query("nvmlDeviceGetName", handle)),
            serial=text_of(self._calls.query("nvmlDeviceGetSerial", handle)),
            pci_address=address,
            numa_node=self._bus.numa_node(address),
            limit_problem=self._limit_problem(handle),
        )

    def health(self, slot: int) -> HealthReading:
        """Read PCI bus, whether NVML reaches the card, the driver's recovery action, and failed row remapping."""
        if lost := self._bus.find_lost(self._addresses.get(slot, "")):
            return lost
        handle = self._handle(slot)
        self._calls.query("nvmlDeviceGetMemoryInfo", handle)  # a card that is lost raises here
        reason, recovery = "", pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        values = self._calls.query("nvmlDeviceGetFieldValues", handle, [recovery])
        if values is not None and values[0].nvmlReturn == pynvml.NVML_SUCCESS and (action := values[0].value.uiVal):
            reason = f"the driver asks for {_RECOVERY_ACTIONS.get(action, f'recovery action {action}')}"
        if not reason:
            rows = self._calls.query("nvmlDeviceGetRemappedRows", handle)
            if rows is not None and rows[3]:
                reason = "a row of its memory could not be remapped: the card needs replacement"
        return HealthReading(healthy=not reason, reason=reason, conclusive=bool(reason))

    def use(self, slot: int) -> CardUse:
        handle = self._handle(slot)
        query, sensor = self._calls.query, pynvml.NVML_TEMPERATURE_GPU
        processes = self._processes.memory(handle)
        return CardUse(
            memory_used_bytes=self._used_bytes(handle, processes),
            temperature_celsius=query("nvmlDeviceGetTemperature", handle, sensor, read=float),
            power_watts=query("nvmlDeviceGetPowerUsage", handle, read=_watts),
            power_limit_watts=query("nvmlDeviceGetPowerManagementLimit", handle, read=_watts),
            utilization_percent=query("nvmlDeviceGetUtilizationRates", handle, read=lambda rates: float(rates.gpu)),
            fan_percent=query("nvmlDeviceGetFanSpeed", handle, read=float),
            performance_state=query("nvmlDeviceGetPerformanceState", handle, read=_known_state),
            compute_mode=query("nvmlDeviceGetComputeMode", handle, read=_COMPUTE_MODES.get),
            ecc=query("nvmlDeviceGetEccMode", handle, read=lambda ecc: ecc[0] == pynvml.NVML_FEATURE_ENABLED),
            mig=query("nvmlDeviceGetMigMode", handle, read=lambda mig: mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE),
            persistence=query(
                "nvmlDeviceGetPersistenceMode", handle, read=lambda on: on == pynvml.NVML_FEATURE_ENABLED
            ),
            cuda_version=self._cuda_version(),
            processes=processes,
            process_utilization=None if processes is None else self._processes.utilization(handle, slot, processes),
            process_names=None if processes is None else self._processes.names(processes),
        )

    def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """Wait for an event that makes a card unhealthy; harmless XIDs are skipped."""
        if self._event_set is None:
            self._event_set = self._register_events()
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                event = self._calls.call("nvmlEventSetWait", self._event_set, max(1, round(left_s * 1000)))
            except LibraryCallError as error:
                if error.failure.code == pynvml.NVML_ERROR_TIMEOUT:
                    return None
                raise
            if reason := why_unhealthy(event.eventType, event.eventData, self._harmless_xids):
                uuid = self._uuids.get(_address(event.device))
                return HealthEvent(uuid=uuid, reason=reason, critical=uuid is not None)
        return None

    def are_linked(self, slot_a: int, slot_b: int) -> bool:
        """Read NVLink, else NVML's topology, else the PCI bus."""
        handles = (self._handle(slot_a), self._handle(slot_b))
        fabric = self._calls.query("nvmlDeviceGetP2PStatus", *handles, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
        if fabric == pynvml.NVML_P2P_STATUS_OK:
            return True
        level = self._calls.query("nvmlDeviceGetTopologyCommonAncestor", *handles)
        if level is not None:
            return bool(level <= pynvml.NVML_TOPOLOGY_SINGLE)
        return self._bus.are_linked(self._addresses.get(slot_a, ""), self._addresses.get(slot_b, ""))

    def group_memory(self, slot: int, group: str) -> GroupMemory | None:
        return nvml_limits.read_group(self._calls, self._handle(slot), group)

    def limit_group(self, slot: int, group: str, hard_bytes: int | None) -> None:
        nvml_limits.limit_group(self._calls, self._handle(slot), group, hard_bytes)

    def _handle(self, slot: int) -> Any:
        return self._calls.call("nvmlDeviceGetHandleByIndex", slot)

    def _driver_bytes(self, uuid: str, handle: Any) -> int:
        """What the driver keeps of a card for itself; 0 if it is too old to say.

        Read once for each card: the figure changes by some MiB, and the units of a card should not.
        """
        if uuid not in self._reserved:
            version = pynvml.nvmlMemory_v2
            memory = self._calls.query("nvmlDeviceGetMemoryInfo", handle, version)
            self._reserved[uuid] = 0 if memory is None else int(memory.reserved)
        return self._reserved[uuid]

    def _used_bytes(self, handle: Any, processes: Mapping[int, int] | None) -> int | None:
        """The card's memory in use; of unified memory what its processes have."""
        used = self._calls.query("nvmlDeviceGetMemoryInfo", handle, read=lambda memory: int(memory.used))
        return sum(processes.values()) if used is None and processes is not None and self._unified else used

    def _limit_problem(self, handle: Any) -> str:
        """Why MPS cannot limit memory on this card; "" if it can, or if the driver does not report it."""
        capability = self._calls.query("nvmlDeviceGetCudaComputeCapability", handle)
        if capability is not None and tuple(capability) < _OLDEST_LIMITED:
            dotted = ".".join(map(str, capability))
            return f"MPS limits memory from Volta (compute capability 7.0) on, and this card has {dotted}"
        version = self._cuda_version()
        if version is not None and tuple(map(int, version.split("."))) < _OLDEST_CUDA:
            return f"MPS limits memory from drivers for CUDA 11.5 on, and this one is for CUDA {version}"
        if self._calls.query("nvmlDeviceGetComputeMode", handle) == pynvml.NVML_COMPUTEMODE_PROHIBITED:
            return "its compute mode prohibits every process (nvidia-smi -c)"
        return ""

    def _cuda_version(self) -> str | None:
        """The newest CUDA that the driver runs; NVML has it as 1000 * major + 10 * minor."""
        version = self._calls.query("nvmlSystemGetCudaDriverVersion")
        return None if version is None else f"{int(version) // 1000}.{int(version) % 1000 // 10}"

    def _register_events(self) -> Any:
        event_set = self._calls.call("nvmlEventSetCreate")
        registered = False
        for slot in range(self.card_count()):
            try:
                handle = self._handle(slot)
                wanted = (self._calls.query("nvmlDeviceGetSupportedEventTypes", handle) or 0) & HEALTH_EVENTS
                if wanted:
                    self._uuids[_address(handle)] = self._calls.query("nvmlDeviceGetUUID", handle)
                    self._calls.call("nvmlDeviceRegisterEvents", handle, wanted, event_set)
                    registered = True
            except LibraryCallError:
                continue  # this card is polled like the others, which reports what is wrong with it
        if not registered:
            code = pynvml.NVML_ERROR_NOT_SUPPORTED
            raise LibraryCallError(CallFailure("nvmlDeviceRegisterEvents", code, CODE_NAMES[code], is_unsupported=True))
        return event_set


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _known_state(state: int) -> int | None:
    return None if state == _UNKNOWN_STATE else int(state)
