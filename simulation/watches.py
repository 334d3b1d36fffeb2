"""Streams of a watch: each at a lag of its own, cut, half open, with bookmarks, duplicates and reordered events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from gcushare_playground.apiserver.storage import Change
from simulation.loop import SimulatedLoop
from simulation.store import Doc, Store
from simulation.weather import Weather

Matches = Callable[[Doc], bool]

BOOKMARK_S = 15.0
_LAST_BOOKMARK_S = 2.0
"""Before the end of a stream; source: k8s.io/apiserver, ``cacheWatcher.nextBookmarkTime``."""


class Watch:
    """One stream. ``read`` is the client's side; everything else is the world's."""

    def __init__(
        self, loop: SimulatedLoop, store: Store, plural: str, matches: Matches, weather: Weather, timeout_s: float
    ) -> None:
        self.plural = plural
        self._loop = loop
        self._store = store
        self._matches = matches
        self._weather = weather
        self._on_way: deque[tuple[float, bytes, int]] = deque()
        """When it arrives, the line, and the version that it stands for."""
        self._arrived: deque[bytes] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._is_moving = False
        self._last_due_s = 0.0
        self._seen = 0
        """The version up to which everything was sent."""
        self.is_half_open = False
        self.is_over = False
        self.failure: Exception | None = None
        loop.call_world(max(0.1, timeout_s - _LAST_BOOKMARK_S), self._send_bookmark)
        loop.call_world(timeout_s, self.end)
        loop.call_world(BOOKMARK_S, self._bookmark_again)

    def replay(self, version: int) -> None:
        """Send what happened after a version; raises ApiFailure 410."""
        self._seen = version
        for change in self._store.since(self.plural, version):
            self.take(change)

    def take(self, change: Change) -> None:
        """Send a change, where it concerns the collection."""
        if self.is_over:
            return
        self._seen = change.version
        if (event := change.seen_by(self._matches)) is None:
            return
        line = b'{"type":"%s","object":%s}\n' % (event[0].encode(), event[1].raw)
        self._send(line, change)
        if self._weather.is_duplicated():
            self._send(line, change)

    def _send(self, line: bytes, change: Change) -> None:
        due_s = self._last_due_s = max(self._last_due_s, self._loop.now_s + self._weather.lag_s())
        self._on_way.append((due_s, line, change.version))
        if len(self._on_way) > 1 and self._weather.is_swapped():
            self._swap_last(change)
        self._move()

    def _swap_last(self, change: Change) -> None:
        """Let the last two lines change places, where they are about different objects."""
        (first_s, first, version), (second_s, second, _) = self._on_way[-2], self._on_way[-1]
        if version == change.version or b'"%s"' % change.revision.uid.encode() in first:
            return
        self._on_way[-2], self._on_way[-1] = (first_s, second, change.version), (second_s, first, version)

    def _send_bookmark(self) -> None:
        if self.is_over:
            return
        kind = b"Pod" if self.plural == "pods" else b"Node"
        line = b'{"type":"BOOKMARK","object":{"kind":"%s","metadata":{"resourceVersion":"%d"}}}\n'
        self._last_due_s = max(self._last_due_s, self._loop.now_s)
        version = max(self._seen, self._store.version)
        self._on_way.append((self._last_due_s, line % (kind, version), version))
        self._move()

    def _bookmark_again(self) -> None:
        if not self.is_over:
            self._send_bookmark()
            self._loop.call_world(BOOKMARK_S, self._bookmark_again)

    def _move(self) -> None:
        if not self._is_moving and self._on_way:
            self._is_moving = True
            self._loop.call_world(max(0.0, self._on_way[0][0] - self._loop.now_s), self._arrive)

    def _arrive(self) -> None:
        self._is_moving = False
        while self._on_way and self._on_way[0][0] <= self._loop.now_s:
            _, line, _ = self._on_way.popleft()
            if not self.is_half_open and not self.is_over:
                self._arrived.append(line)
        if self._arrived:
            self._wake()
        self._move()

    def end(self, failure: Exception | None = None) -> None:
        """End the stream, as the server does or as the network does; a half-open one is never seen to end."""
        if self.is_over or (self.is_half_open and failure is None):
            return
        self.is_over, self.failure = True, failure
        self._on_way.clear()
        self._wake()

    def close(self) -> None:
        """The client goes."""
        self.is_over = True
        self._on_way.clear()
        self._reader = None

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    async def read(self, stall_s: float) -> bytes:
        """The next chunk; empty at the end. Raises what cut the stream, and TimeoutError where nothing comes for long.

        ``stall_s``: how long, by the clock of the process that reads.
        """
        if not self._arrived and not self.is_over:
            reader = self._reader = self._loop.create_future()
            self._loop.settle_later(stall_s, reader, None)
            await reader
            if not self._arrived and not self.is_over:
                raise TimeoutError(f"nothing came for {stall_s} s")
        if not self._arrived:
            if self.failure is not None:
                raise self.failure
            return b""
        chunk = b"".join(self._arrived)
        self._arrived.clear()
        return chunk
