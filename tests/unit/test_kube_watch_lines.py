"""A watch's bytes into lines and events, however the network cuts them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import ForbiddenError, GcushareError, RemoteContractError, RetryableError
from gcushare.kube.connection.watch_lines import LineSplitter, watch_events
from gcushare.kube.errors import Attempt, GoneError

ATTEMPT = Attempt("GET /api/v1/pods", writes=False)


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line and line.strip())), st.data())
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    edges = [0, *cuts, len(stream)]
    splitter = LineSplitter()
    found = [line for start, end in itertools.pairwise(edges) for line in splitter.feed(stream[start:end])]
    assert found == lines


def test_an_unfinished_line_is_kept_back() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b'{"a"') == []
    assert splitter.feed(b":1}") == []
    assert splitter.feed(b"\n\n \r\n") == [b'{"a":1}']


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    splitter = LineSplitter(limit_bytes=100)
    assert splitter.feed(b"x" * 99 + b"\n" + b"y" * 60) == [b"x" * 99]
    with pytest.raises(RemoteContractError, match="longer than 100 bytes"):
        splitter.feed(b"y" * 41)


async def _chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def _events(*parts: bytes) -> list[tuple[str, bytes]]:
    return [(event.type, bytes(event.object)) async for event in watch_events(_chunks(parts), ATTEMPT)]


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
