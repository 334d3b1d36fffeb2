"""What NVML's health signals mean: XIDs, ECC events and the recovery action that the driver asks for."""

from __future__ import annotations

_XID_CRITICAL_ERROR = 0x8  # nvmlEventTypeXidCriticalError
_DOUBLE_BIT_ECC_ERROR = 0x2  # nvmlEventTypeDoubleBitEccError

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


def event_reason(event_type: int, event_data: int, harmless_xids: frozenset[int]) -> str:
    """Say why an event makes its card sick; "" when it does not."""
    if event_type & _DOUBLE_BIT_ECC_ERROR:
        return "uncorrectable memory error (double-bit ECC)"
    if event_type & _XID_CRITICAL_ERROR and event_data not in harmless_xids:
        return f"critical XID {event_data}"
    return ""


def recovery_reason(action: int) -> str:
    """Say what the driver asks for before the card may be used again; "" when it asks for nothing."""
    if action == 0:
        return ""
    return f"the driver asks for {_RECOVERY_ACTIONS.get(action, f'recovery action {action}')}"
