"""How much of a machine's memory a card offers that has none of its own, such as NVIDIA's GB10."""

from __future__ import annotations

import re
from pathlib import Path

from gcushare.core.errors import DeviceError

PROC_MEMINFO = Path("/proc/meminfo")
"""It shows the machine's memory to containers, too."""
AUTO_UNIFIED = -1
"""The setting ``auto``."""
_SYSTEM_PERCENT, _SYSTEM_LEAST = 10, 8 << 30
"""What stays for the system: kernel, kubelet and daemons take some GiB; page cache and containers' RAM come out of the
same memory. A tenth is what Kubernetes providers reserve of machines of this size."""


NOT_SET = "the driver reports no memory of its own for it, as with unified memory: set --unified-memory"
"""Why a card without memory of its own is not shared."""


def offered_bytes(setting: int) -> int:
    """What such a card offers of the machine's memory; 0 if the admin did not say.

    Raises:
        DeviceError: ``AUTO_UNIFIED``, and the machine does not say how much memory it has.
    """
    return of_machine(PROC_MEMINFO.read_text()) if setting == AUTO_UNIFIED else setting


def of_machine(meminfo: str) -> int:
    """The bytes that ``auto`` offers, by /proc/meminfo.

    Raises:
        DeviceError: it does not say how much memory the machine has.
    """
    found = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if found is None:
        raise DeviceError(f"{PROC_MEMINFO} has no MemTotal: say with --unified-memory how much the card offers")
    total = int(found[1]) << 10
    return max(0, total - max(_SYSTEM_LEAST, total * _SYSTEM_PERCENT // 100))
