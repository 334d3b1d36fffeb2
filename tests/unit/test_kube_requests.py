"""What the API client makes of odd answers, and of a watch's bytes however the network cuts them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError, RemoteContractError, RetryableError
from gcushare.kube.connection.watch_lines import MAX_LINE_BYTES, watch_events
from gcushare.kube.errors import (
    FailedRequest,
    GoneError,
    HttpFailure,
    NotAnApiServerError,
    UnauthorizedError,
    describe,
    error_of_answer,
)
from gcushare.kube.resources import is_at_least


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (TimeoutError(), "no answer in time"),
        (TimeoutError("late"), "TimeoutError: late"),
        (ValueError(), "ValueError"),
        (ValueError("a\n b"), "ValueError: a b"),
    ],
)
def test_a_librarys_exception_is_described_in_one_line(failure: Exception, expected: str) -> None:
    assert describe(failure) == expected


PAGE = b"\xef\xbb\xbf\n<!DOCTYPE html><html><head><title>Sign\n in</title></head></html>"
PODS_PATH, GROUP_PATH, PROXY_PATH = "/api/v1/pods", "/apis/resource.k8s.io/v1/deviceclasses", "/api/v1/pods/p/proxy/x"


@pytest.mark.parametrize(
    ("code", "path", "body", "expected"),
    [
        *((code, "/version", b"", NotAnApiServerError) for code in (301, 302, 307, 407)),
        *((code, PODS_PATH, PAGE, NotAnApiServerError) for code in (302, 400, 403, 404, 407, 413)),
        (400, PODS_PATH, b"Client sent an HTTP request to an HTTPS server.\n", NotAnApiServerError),
        (403, PODS_PATH, b"", NotAnApiServerError),
        (404, PODS_PATH, b"404 page not found\n", NotAnApiServerError),
        (404, PODS_PATH, b'{"detail": "Not Found"}', NotAnApiServerError),
        (404, GROUP_PATH, PAGE, NotAnApiServerError),
        (404, PROXY_PATH, PAGE, NotAnApiServerError),
        (404, GROUP_PATH, b"404 page not found\n", NotFoundError),
        (404, PROXY_PATH, b"404 page not found\n", NotFoundError),
        (401, PODS_PATH, PAGE, UnauthorizedError),
        (429, PODS_PATH, b"Too many requests, please try again later.\n", RetryableError),
        (502, PODS_PATH, PAGE, RetryableError),
    ],
)
def test_what_no_api_server_answers_is_not_taken_for_its_word(
    code: int, path: str, body: bytes, expected: type[GcushareError]
) -> None:
    error = error_of_answer(FailedRequest(f"GET {path}", writes=False), HttpFailure(code, body))
    assert type(error) is expected, str(error)
    assert ("a web page, 'Sign in'" in str(error)) == (body is PAGE)
    assert "<" not in str(error)


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


@pytest.mark.parametrize(
    ("seen", "wanted", "reached"),
    [
        pytest.param("100", "100", True, id="equal"),
        pytest.param("101", "100", True, id="newer"),
        pytest.param("99", "100", False, id="older, though greater as text"),
        pytest.param("", "100", False, id="nothing seen"),
        pytest.param("", "", False, id="nothing reported"),
        pytest.param("abc", "abc", True, id="opaque and equal"),
        pytest.param("abd", "abc", False, id="opaque and different"),
        pytest.param("100", "abc", False, id="number against opaque"),
        pytest.param("٢٠٠", "100", False, id="digits of another script"),
    ],
)
def test_a_version_is_reached_or_cannot_be_known(seen: str, wanted: str, reached: bool) -> None:
    assert is_at_least(seen, wanted) is reached
