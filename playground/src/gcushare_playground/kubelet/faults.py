"""Ways in which the double can be asked to misbehave, each something a real node does on a bad day."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field


class PodResourcesMode(enum.Enum):
    """How the pod resources socket behaves."""

    ANSWER = "answer"
    HANG = "hang"
    """Accept calls and never answer them."""
    FORGET = "forget"
    """List no pod, as a stock kubelet does for a while after its start: it has not looked at its pods again."""


@dataclass(slots=True)
class KubeletFaults:
    """Switches a test turns while the kubelet runs; the defaults are the stock behaviour."""

    ignore_preferred: bool = False
    """Ask for the preferred allocation and then pick other free ids."""
    podresources: PodResourcesMode = PodResourcesMode.ANSWER
    podresources_delay_s: tuple[float, float] = (0.006, 0.025)
    """Bounds of the time from Allocate's answer until List shows the ids; as measured on a stock kubelet."""
    admission_open: asyncio.Event = field(default_factory=asyncio.Event)
    """Admission waits while this is cleared, so that a batch can be gathered."""

    def __post_init__(self) -> None:
        self.admission_open.set()
