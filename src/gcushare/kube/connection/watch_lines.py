"""Decodes the bytes of a watch stream into events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeAlias

import msgspec

from gcushare.core.errors import RemoteContractError
from gcushare.kube.errors import FailedRequest, error_of_status
from gcushare.wire.objects import STATUS, WatchEvent
from gcushare.wire.untrusted_json import BoundedJsonDecoder

RawWatchEvent: TypeAlias = WatchEvent[msgspec.Raw]

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longest accepted event. etcd stores objects up to 1.5 MiB by default, and 10 MB if its limit is raised."""

EVENT = BoundedJsonDecoder(WatchEvent[msgspec.Raw], "a watch event", limit_bytes=MAX_LINE_BYTES, max_depth=None)


async def watch_events(chunks: AsyncIterator[bytes], attempt: FailedRequest) -> AsyncGenerator[RawWatchEvent, None]:
    """Decode a watch stream, until the server ends it.

    Raises:
        GoneError, RetryableError and others: the server sent an ERROR event, or the stream broke.
        RemoteContractError: a line is not a watch event, or is longer than ``MAX_LINE_BYTES``.
    """
    parts: list[bytes] = []  # of the line that has not ended yet
    size = 0
    async for chunk in chunks:
        pieces = chunk.split(b"\n")
        for place, piece in enumerate(pieces, start=1):
            size += len(piece)
            if size > MAX_LINE_BYTES:
                raise RemoteContractError(f"a watch event is longer than {MAX_LINE_BYTES} bytes")
            if piece:
                parts.append(piece)
            if place < len(pieces):
                line = b"".join(parts)
                parts, size = [], 0
                if line.strip():
                    yield _decode(line, attempt)


def _decode(line: bytes, attempt: FailedRequest) -> RawWatchEvent:
    try:
        event = EVENT.read(line)
        if event.type != "ERROR":
            return event
        status = STATUS.read(event.object)
    except RemoteContractError as error:
        raise RemoteContractError(f"{attempt.text} sent a line that is not a watch event: {error}") from error
    raise error_of_status(attempt, status)
