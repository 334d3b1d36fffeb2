"""A watch's bytes into lines and events, however the network cuts them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import ForbiddenError, GcushareError, RemoteContractError, RetryableError
from gcushare.kube.connection.watch_lines import MAX_LINE_BYTES, watch_events
from gcushare.kube.errors import FailedRequest, GoneError

ATTEMPT = FailedRequest("GET /api/v1/pods", writes=False)


async def _chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def _events(*parts: bytes) -> list[tuple[str, bytes]]:
    return [(event.type, bytes(event.object)) async for event in watch_events(_chunks(parts), ATTEMPT)]


@pytest.mark.slow
@given(st.lists(st.binary().map(bytes.hex), max_size=6), st.data())
def test_events_come_out_whole_however_they_are_cut(objects: list[str], data: st.DataObject) -> None:
    expected = [("ADDED", f'"{text}"'.encode()) for text in objects]
    stream = b"".join(b'{"type":"ADDED","object":%s}\n' % each for _, each in expected)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in itertools.pairwise([0, *cuts, len(stream)])]
    assert asyncio.run(_events(*pieces)) == expected


async def test_an_unfinished_line_is_kept_back_and_empty_ones_are_left_out() -> None:
    assert await _events(b'{"type":"ADDED",', b'"object":1}') == []
    assert await _events(b'{"type":"ADDED",', b'"object":1}', b"\n\n \r\n") == [("ADDED", b"1")]


async def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    parts = (b'{"type":"BOOKMARK","object":{}}\n' + b"y" * 60, b"y" * (MAX_LINE_BYTES - 60), b"y")
    events = watch_events(_chunks(parts), ATTEMPT)
    assert (await anext(events)).type == "BOOKMARK"
    with pytest.raises(RemoteContractError, match=f"longer than {MAX_LINE_BYTES} bytes"):
        await anext(events)


async def test_events_keep_their_object_undecoded() -> None:
    assert await _events(b'{"type":"ADDED","object":{"x":', b'1}}\n{"type":"BOOKMARK","object":{}}\n') == [
        ("ADDED", b'{"x":1}'),
        ("BOOKMARK", b"{}"),
    ]


@pytest.mark.parametrize(
    ("code", "expected"), [(410, GoneError), (403, ForbiddenError), (500, RetryableError), (None, RetryableError)]
)
async def test_an_error_event_is_raised_as_the_error_of_its_status(
    code: int | None, expected: type[GcushareError]
) -> None:
    body = b'{"kind":"Status","message":"why"' + (b"" if code is None else b',"code":%d' % code) + b"}"
    with pytest.raises(expected, match="why"):
        await _events(b'{"type":"ERROR","object":' + body + b"}\n")


@pytest.mark.parametrize("line", [b"hello", b"{}", b'{"type":5,"object":{}}', b'{"type":"ERROR","object":[]}'])
async def test_a_line_that_is_no_event_breaks_the_contract(line: bytes) -> None:
    with pytest.raises(RemoteContractError, match="not a watch event"):
        await _events(line + b"\n")
