"""Decodes the bytes of a watch stream into events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeAlias

import msgspec

from gcushare.core.errors import RemoteContractError
from gcushare.kube.errors import Attempt, error_of_status
from gcushare.wire.objects import STATUS, WatchEvent
from gcushare.wire.untrusted_json import BoundedJsonDecoder

RawWatchEvent: TypeAlias = WatchEvent[msgspec.Raw]

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longest accepted event. etcd stores objects up to 1.5 MiB by default, and 10 MB if its limit is raised."""

EVENT = BoundedJsonDecoder(WatchEvent[msgspec.Raw], "a watch event", limit_bytes=MAX_LINE_BYTES, max_depth=None)


class LineSplitter:
    """Splits chunks into lines. Keeps an incomplete line, up to ``limit_bytes``."""

    def __init__(self, limit_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk; returns the lines that it completes, without line ends and without empty lines.

        Raises:
            RemoteContractError: a line is longer than the limit.
        """
        *complete, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for end in complete:
            self._keep(end)
            line = b"".join(self._parts) if len(self._parts) > 1 else end
            self._parts, self._size = [], 0
            if line.strip():
                lines.append(line)
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit_bytes:
            raise RemoteContractError(f"a watch event is longer than {self._limit_bytes} bytes")
        self._parts.append(part)


async def watch_events(chunks: AsyncIterator[bytes], attempt: Attempt) -> AsyncGenerator[RawWatchEvent, None]:
    """Decode a watch stream, until the server ends it.

    Raises:
        GoneError, RetryableError and others: the server sent an ERROR event, or the stream broke.
        RemoteContractError: a line is not a watch event.
    """
    splitter = LineSplitter()
    async for chunk in chunks:
        for line in splitter.feed(chunk):
            yield _decode(line, attempt)


def _decode(line: bytes, attempt: Attempt) -> RawWatchEvent:
    try:
        event = EVENT.read(line)
        if event.type != "ERROR":
            return event
        status = STATUS.read(event.object)
    except RemoteContractError as error:
        raise RemoteContractError(f"{attempt.text} sent a line that is not a watch event: {error}") from error
    raise error_of_status(attempt, status)
