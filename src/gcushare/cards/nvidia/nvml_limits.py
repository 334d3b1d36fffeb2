"""Memory limits of control groups, which NVIDIA's driver keeps by itself from 615 on.

The driver charges each allocation of a process to the process's control group, contexts included, and refuses what
exceeds the group's hard limit. A limit below what is in use is refused. A soft limit is for MPS alone: this project
leaves it at 0, because the driver adds it to all groups above, where it stays if the group is removed.

Source: NVIDIA's "MPS v3 Memory Partitioning", and nvml.h of CUDA 13.4.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pynvml

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.nvidia.nvml_processes import NvmlCalls
from gcushare.cards.ports import GroupMemory

_NO_LIMIT = pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX
_UNLIMITED = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NOT_FOUND)
"""What reading answers where neither the group nor one above it has a limit, depending on how the driver keeps them."""
_ADVICE = {
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "the driver keeps no memory limits of control groups; 615 and newer do",
    pynvml.NVML_ERROR_NO_PERMISSION: "it takes root with the capability SYS_ADMIN",
    pynvml.NVML_ERROR_NOT_FOUND: "the kernel's controller dmem is not on for this control group: write +dmem to "
    "cgroup.subtree_control of all groups above it, or boot with cgroup_disable=dmem",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "the driver keeps no limits on this card, or they are turned off "
    "(RmMemacctMode=0)",
}
"""What to do about a code, in place of the library's own words."""


def read_group(calls: NvmlCalls, handle: Any, group: str) -> GroupMemory | None:
    """Read a group's limit and use of one card; None if no limit is kept there."""
    limits = pynvml.c_nvmlGetMemoryLimits_v1_t()
    limits.nameSpace = group.encode()
    try:
        calls.call("nvmlDeviceGetMemoryLimits_v1", handle, limits)
    except LibraryCallError as error:
        if error.failure.code in _UNLIMITED:
            return None
        raise _explained(error) from error
    hard = int(limits.hardLimit)
    return GroupMemory(hard_bytes=None if hard >= _NO_LIMIT else hard, used_bytes=int(limits.currentUsed))


def limit_group(calls: NvmlCalls, handle: Any, group: str, hard_bytes: int | None) -> None:
    """Set a group's hard limit of one card; None removes it."""
    limits = pynvml.c_nvmlSetMemoryLimits_v1_t()
    limits.nameSpace, limits.softLimit = group.encode(), 0
    limits.hardLimit = _NO_LIMIT if hard_bytes is None else hard_bytes
    try:
        calls.call("nvmlDeviceSetMemoryLimits_v1", handle, limits)
    except LibraryCallError as error:
        raise _explained(error) from error


def _explained(error: LibraryCallError) -> LibraryCallError:
    advice = _ADVICE.get(error.failure.code)
    return LibraryCallError(msgspec.structs.replace(error.failure, detail=advice)) if advice else error
