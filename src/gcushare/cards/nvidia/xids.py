"""Which XIDs and other events of NVML make a card unhealthy, and which are the fault of a program."""

from __future__ import annotations

from collections.abc import Collection

import pynvml

HEALTH_EVENTS: int = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that a faulty program causes on a sound card: graphics engine and memory page faults, a stopped or cleaned-up
channel, a video processor exception, a context switch timeout."""


def why_unhealthy(event_type: int, event_data: int, harmless_xids: Collection[int]) -> str:
    """Say why an event makes its card unhealthy; "" if it does not. ``event_data`` is the XID of an XID event."""
    if event_type & pynvml.nvmlEventTypeDoubleBitEccError:
        return "uncorrectable memory error (double-bit ECC)"
    if event_type & pynvml.nvmlEventTypeXidCriticalError and event_data not in harmless_xids:
        return f"critical XID {event_data}"
    return ""
