"""Counts of what a server rejects before any handler gets it, by cause, for metrics."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TypeAlias


class Cause(Enum):
    """Why a request or a connection got no further; the values are the metric's label."""

    CONNECTIONS = "connections"
    """The maximum of connections is open, and none of them is idle."""
    MEMORY = "memory"
    """The memory for bodies was used up, or went to another body."""
    SLOW = "slow"
    """The body did not arrive in time."""
    SIZE = "size"
    """The body is larger than allowed."""
    MALFORMED = "malformed"
    CERTIFICATE = "certificate"
    """The client presented none although it must, or that of another client."""
    HANDSHAKE = "handshake"
    """The TLS handshake failed: unknown authority, no certificate although one is required, or no TLS at all. Or it was
    the oldest one when the limit of handshakes was reached."""


RejectedCounts: TypeAlias = Counter[Cause]
"""The counts of one server since its start."""
