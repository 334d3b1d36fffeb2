"""Queries of NVML: calls by name, with failures as this project's errors, and what it reports of processes.

Each call is reported before it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pynvml

from gcushare.cards.c_library import decode_text
from gcushare.cards.errors import CallFailure, LibraryCallError
from gcushare.cards.ports import CallObserver

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
_OTHER_LISTS = ("nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
"""Processes that compute through MPS, and those that draw or render (OpenGL, Vulkan), also without a display."""
CODE_NAMES: dict[int, str] = {
    getattr(pynvml, name): name for name in sorted(dir(pynvml)) if name.startswith("NVML_ERROR_")
}


class NvmlCalls:
    """The functions of ``pynvml``. ``observe`` gets the name of each before it is called."""

    def __init__(self, observe: CallObserver) -> None:
        self._observe = observe

    def query(self, name: str, *arguments: Any, read: Callable[[Any], Any] = lambda answer: answer) -> Any:
        """Make a call that not every card or driver supports, and ``read`` its answer; None if it is not supported."""
        try:
            return read(self.call(name, *arguments))
        except LibraryCallError as error:
            if error.failure.is_unsupported:
                return None
            raise

    def call(self, name: str, *arguments: Any) -> Any:
        """Make a call.

        Raises:
            LibraryCallError: it failed, or its answer is not readable text.
        """
        self._observe(name)
        try:
            return getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            raise LibraryCallError(
                CallFailure(
                    name,
                    error.value,
                    CODE_NAMES.get(error.value, "unknown code"),
                    detail=str(error),
                    is_unsupported=error.value in _UNSUPPORTED,
                    is_lost=error.value == pynvml.NVML_ERROR_GPU_IS_LOST,
                )
            ) from error
        except UnicodeDecodeError as error:
            raise LibraryCallError(CallFailure(name, -1, "undecodable answer", detail=repr(error.object))) from error


class NvmlProcesses:
    """Reads processes through NVML. A method returns None if the card or the driver does not report it."""

    def __init__(self, calls: NvmlCalls) -> None:
        self._calls = calls
        self._sampled_until: dict[int, int] = {}
        """The driver's timestamp (microseconds) of the newest sample of processes' utilization, by slot."""

    def memory(self, handle: Any) -> dict[int, int] | None:
        """The processes with memory of a card, whatever they do with it: NVML has a list for each kind of work.

        One that is in several lists is one process.
        """
        found = self._listed(handle, "nvmlDeviceGetComputeRunningProcesses")
        if found is None:
            return None
        for query in _OTHER_LISTS:
            for pid, used in (self._listed(handle, query) or {}).items():
                found[pid] = max(found.get(pid, 0), used)
        return found

    def _listed(self, handle: Any, query: str) -> dict[int, int] | None:
        for version in ("_v3", "_v2"):
            entries = self._calls.query(query + version, handle)
            if entries is not None:
                return {int(entry.pid): int(entry.usedGpuMemory or 0) for entry in entries}
        return None

    def utilization(self, handle: Any, slot: int, processes: Iterable[int]) -> dict[int, float] | None:
        """Percents of the chip's time by process since the poll before; None if the card does not sample processes.

        Source: nvml.h, ``nvmlDeviceGetProcessUtilization``: it returns samples newer than a timestamp, and only of
        processes that used the chip. The process ids of samples are not always those of processes on the card, so only
        ids that the card lists count.
        """
        found = dict.fromkeys(processes, 0.0)
        try:
            samples = self._calls.query("nvmlDeviceGetProcessUtilization", handle, self._sampled_until.get(slot, 0))
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

    def names(self, processes: Iterable[int]) -> dict[int, str] | None:
        """The program of each process, as the driver reads it from /proc; without those that ended."""
        found: dict[int, str] = {}
        for pid in processes:
            try:
                name = self._calls.query("nvmlSystemGetProcessName", pid)
            except LibraryCallError as error:
                if error.failure.code in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT):
                    continue
                raise
            if name is None:
                return None
            found[pid] = text_of(name)
        return found


def text_of(value: str | bytes | None) -> str:
    """A text of NVML, which ``pynvml`` returns as bytes or as str; "" for None."""
    return decode_text(value) if isinstance(value, bytes) else value or ""
