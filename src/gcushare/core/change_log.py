"""What changed since a reader looked last, for any number of readers."""

from __future__ import annotations

from gcushare.core.ledger import Ledger

MAX_LOGGED_CHANGES = 16_384
"""Changes stored. An index that is further behind checks every node again, which costs no more then."""


class NameLog:
    """Names in the order in which they were recorded, for any number of readers that each remember a position."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._dropped = 0

    @property
    def position(self) -> int:
        return self._dropped + len(self._names)

    def since(self, position: int) -> set[str] | None:
        """The names recorded after ``position``; None if some of them are no longer stored."""
        if position < self._dropped:
            return None
        return set(self._names[position - self._dropped :])

    def record(self, name: str) -> None:
        self._names.append(name)
        if len(self._names) > MAX_LOGGED_CHANGES:
            del self._names[: MAX_LOGGED_CHANGES // 2]
            self._dropped += MAX_LOGGED_CHANGES // 2


class ChangeLog(NameLog):
    """The log of the nodes of a ledger that change."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        ledger.listen(lambda node: self.record(node.name))
