"""Whether memory is limited, and how: flags, variables and file keys."""

from __future__ import annotations

import enum
from pathlib import Path

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import setting, settings

MPS_LIBRARY = "nvml"
"""MPS is CUDA's: for the cards that this library manages."""


class MemoryLimit(enum.Enum):
    """What keeps a process from allocating more than its container was granted: nothing, or MPS."""

    NONE = "none"
    MPS = "mps"


class Fallback(enum.Enum):
    """What becomes of cards on which MPS cannot limit memory: they take no new pods, or pods without a limit."""

    REFUSE = "refuse"
    UNLIMITED = "unlimited"


@settings
class MpsSettings:
    """Memory limits."""

    memory_limit: MemoryLimit = setting(
        parsers.choice(MemoryLimit),
        default=MemoryLimit.NONE,
        help="What keeps a process from allocating more memory than its container was granted: none, or mps, NVIDIA's "
        "Multi-Process Service, whose control daemon runs next to the plugin (--run-mps-daemon; the chart starts it). "
        "The limit is one of each process, not of the container.",
    )
    mps_root: Path = setting(
        parsers.path("DIR"),
        default=Path("/run/gcushare/mps"),
        help="With --memory-limit mps: the folder, the same on the host and here, of the daemon's pipes, logs, shared "
        "memory and state. Containers get its pipes and shared memory mounted.",
    )
    mps_fallback: Fallback = setting(
        parsers.choice(Fallback),
        default=Fallback.REFUSE,
        help="What becomes of cards on which MPS cannot limit memory (too old, a daemon that does not answer, another "
        "one): refuse lets no new pods on them, unlimited lets pods on them without a limit and says so.",
    )
    mps_control: Path = setting(
        parsers.path("FILE"),
        default=Path("nvidia-cuda-mps-control"),
        help="With --run-mps-daemon: NVIDIA's program; a name is searched in PATH. The container toolkit brings it "
        "with NVIDIA_DRIVER_CAPABILITIES=compute,utility.",
    )
