"""How much memory the bodies of one server's requests may take at once, and whose is given up when it runs short."""

from __future__ import annotations

from collections.abc import Callable, Mapping

# Counted in largest requests: enough for bursts, far from a pod's memory limit.
_BODIES_AT_ONCE = 8


class BodyBudget:
    """Memory for bodies, taken as they arrive: what a request declares costs nothing. ``largest``: bytes of one body,
    ``by_path``: those of paths that take less.

    Where it runs short, the body that began to arrive first of those not complete yet is given up: one whose client
    goes slowly, or sends nothing more, never stands in the way of those who send theirs.
    """

    def __init__(self, largest: int, by_path: Mapping[str, Callable[[], int]] | None = None) -> None:
        self._largest = largest
        self._by_path = by_path or {}
        self._left = _BODIES_AT_ONCE * largest
        self._arriving: dict[BodyShare, None] = {}

    def largest_of(self, path: str) -> int:
        """How many bytes a body for this path may have."""
        own = self._by_path.get(path)
        return self._largest if own is None else min(self._largest, own())

    def open(self, give_up: Callable[[], None]) -> BodyShare:
        """Begin a body. ``give_up`` is called when its memory goes to others while it arrives; it drops the body."""
        share = BodyShare(self, give_up)
        self._arriving[share] = None
        return share

    def _take(self, size: int, taker: BodyShare) -> bool:
        while size > self._left:
            oldest = next((share for share in self._arriving if share.size or share is taker), taker)
            if oldest is taker:
                return False
            oldest.cut()
        self._left -= size
        return True

    def _give_back(self, share: BodyShare, size: int) -> None:
        self._arriving.pop(share, None)
        self._left += size

    def _stop_arriving(self, share: BodyShare) -> None:
        self._arriving.pop(share, None)


class BodyShare:
    """The memory of one body, from its first byte until whoever handles it is done."""

    __slots__ = ("_budget", "_give_up", "is_cut", "size")

    def __init__(self, budget: BodyBudget, give_up: Callable[[], None]) -> None:
        self._budget = budget
        self._give_up = give_up
        self.size = 0
        """Bytes taken and not given back."""
        self.is_cut = False
        """Whether its memory was given to others."""

    def grow(self, size: int) -> bool:
        """Take ``size`` bytes more; False when there are none, or when it was given up: it is then to be dropped."""
        if self.is_cut or not self._budget._take(size, self):
            return False
        self.size += size
        return True

    def complete(self) -> None:
        """The whole body has arrived: it is no longer given up for others."""
        self._budget._stop_arriving(self)

    def cut(self) -> None:
        """Give the body up for others."""
        self.is_cut = True
        self.close()
        self._give_up()

    def close(self) -> None:
        """Give its memory back; repeatable."""
        size, self.size = self.size, 0
        self._budget._give_back(self, size)
