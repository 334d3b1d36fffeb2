"""Limit the memory of the request bodies of one server, and choose which body is dropped if it runs short."""

from __future__ import annotations

from collections.abc import Callable, Mapping

# In bodies of the largest size: enough for bursts, and far below a pod's memory limit.
_BODIES_AT_ONCE = 8


class BodyBudget:
    """The memory for bodies, in bytes. It is charged for bytes that arrived; a declared length costs nothing.

    ``largest``: the limit of one body. ``by_path``: lower limits of single paths, asked at each request.

    If the memory runs short, the oldest incomplete body is dropped. So a slow or silent client never blocks the others.
    """

    def __init__(self, largest: int, by_path: Mapping[str, Callable[[], int]] | None = None) -> None:
        self._largest = largest
        self._by_path = by_path or {}
        self._left = _BODIES_AT_ONCE * largest
        self._arriving: dict[BodyShare, None] = {}

    def largest_of(self, path: str) -> int:
        """The most bytes that a body for this path may have."""
        own = self._by_path.get(path)
        return self._largest if own is None else min(self._largest, own())

    def open(self, give_up: Callable[[], None]) -> BodyShare:
        """Begin a body. ``give_up`` is called if its memory goes to another body; it must drop this one."""
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


class BodyShare:
    """The memory of one body, from its first byte until its handler is done."""

    __slots__ = ("_budget", "_give_up", "is_cut", "size")

    def __init__(self, budget: BodyBudget, give_up: Callable[[], None]) -> None:
        self._budget = budget
        self._give_up = give_up
        self.size = 0
        """Bytes that it has now."""
        self.is_cut = False
        """Whether its memory went to another body."""

    def grow(self, size: int) -> bool:
        """Take ``size`` more bytes. False if there are none left or the body was cut: then drop it."""
        if self.is_cut or not self._budget._take(size, self):
            return False
        self.size += size
        return True

    def complete(self) -> None:
        """Call it when the whole body has arrived: from now on it is not cut."""
        self._budget._arriving.pop(self, None)

    def cut(self) -> None:
        """Give its memory to another body, and drop it."""
        self.is_cut = True
        self.close()
        self._give_up()

    def close(self) -> None:
        """Give its memory back; repeatable."""
        size, self.size = self.size, 0
        self.complete()
        self._budget._left += size
