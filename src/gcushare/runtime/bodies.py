"""How much memory the bodies of one server's requests may take at once."""

from __future__ import annotations

# Counted in largest requests: enough for bursts, far from a pod's memory limit.
_BODIES_AT_ONCE = 8


class BodyBudget:
    """Memory for bodies, reserved before one is read. ``largest``: bytes that one request may have."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self._left = _BODIES_AT_ONCE * largest

    def take(self, size: int) -> bool:
        """Reserve ``size`` bytes until `give_back`; False when too many are reserved already."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give_back(self, size: int) -> None:
        """Return what was taken."""
        self._left += size
