"""How long a client may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class ClientDeadline:
    """How long the client may take now. One timer serves many requests: it is set again if it rings early."""

    def __init__(self) -> None:
        self._late: Callable[[], None] | None = None
        self._due = self._rings = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def set(self, limit_s: float, late: Callable[[], None]) -> None:
        """Call ``late`` after some seconds, and what was set before no more."""
        self._late, self._due = late, asyncio.get_running_loop().time() + limit_s
        if self._timer is None or self._due < self._rings:
            self.end()
            self._late = late
            self._start_timer()

    def clear(self) -> None:
        """The client is not waited for."""
        self._late = None

    def end(self) -> None:
        """The connection is over."""
        self._late = None
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer, late = None, self._late
        if late is not None and self._due <= self._rings:
            self._late = None
            late()
        elif late is not None:
            self._start_timer()

    def _start_timer(self) -> None:
        self._rings = self._due
        self._timer = asyncio.get_running_loop().call_at(self._due, self._ring)
