"""What a server rejects before any handler sees it, by cause, for metrics."""

from __future__ import annotations

from collections import Counter
from enum import Enum


class Cause(Enum):
    """Why a request or a connection got no further; the values are the metric's label."""

    CONNECTIONS = "connections"
    """As many connections as allowed, none of them idle."""
    MEMORY = "memory"
    """The memory for bodies was needed by others, or there was none."""
    SLOW = "slow"
    """The body did not arrive in time."""
    SIZE = "size"
    """The body is larger than allowed."""
    MALFORMED = "malformed"
    CERTIFICATE = "certificate"
    """The client showed none, and needs one, or another client's."""
    HANDSHAKE = "handshake"
    """TLS was not agreed on: an unknown authority, no certificate where one is required, or no TLS at all; or it took
    longest when others needed the place."""


class RejectedCounts:
    """The counts of one server."""

    def __init__(self) -> None:
        self._counts: Counter[Cause] = Counter()

    def note(self, cause: Cause) -> None:
        """Count one."""
        self._counts[cause] += 1

    def by_cause(self) -> dict[Cause, int]:
        """The counts since the start, every cause included."""
        return {cause: self._counts[cause] for cause in Cause}
