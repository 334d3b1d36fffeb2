"""Read the requests of the scheduler's port: HTTP/1.1 that every parser reads alike, and nothing else.

What proxies and servers are known to read in different ways is malformed here: chunked bodies, two lengths, folded
lines, bare line feeds, absolute targets, other versions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from aiohttp import web

from gcushare.runtime.http.answers import Cause, Rejection

LONGEST_HEAD = 8192
"""Bytes of a request line and its headers."""
_MOST_DIGITS = 10

_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[!-\"$-~]*) HTTP/1\.1")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~]*)")
_ONCE = frozenset(("host", "content-length", "content-type"))


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request. Names of headers are in lower case; ``length`` is that of the body, in bytes."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    length: int

    @property
    def closes(self) -> bool:
        """Whether the client wants the connection to end after the answer."""
        return "close" in self.headers.get("connection", "").lower()


def malformed(reason: str) -> Rejection:
    return Rejection(400, Cause.MALFORMED, f"malformed HTTP request: {reason}")


def find_head_end(data: bytes) -> int:
    """Return where the head ends, before its empty line; -1 if more of it has to come.

    Raises:
        Rejection: the head is too long, or cannot become one.
    """
    end = data.find(b"\r\n\r\n", 0, LONGEST_HEAD)
    if end < 0:
        if not data[:1].isalpha() or data.count(b"\n") != data.count(b"\r\n"):
            raise malformed(f"{_show(data)}; accepted: METHOD /path HTTP/1.1 and headers, in lines that end with CR LF")
        if len(data) >= LONGEST_HEAD:
            raise malformed(f"its head is too long; accepted: less than {LONGEST_HEAD} bytes")
    return end


def read_head(data: bytes) -> Head:
    """Read a head without its empty line.

    Raises:
        Rejection: it is malformed, or could be read in more than one way.
    """
    first, *lines = data.split(b"\r\n")
    method, path, query = _read_request_line(first)
    headers: dict[str, str] = {}
    for line in lines:
        name, value = _read_header(line)
        if name in headers:
            if name in _ONCE:
                raise malformed(f"header {name} comes twice; accepted: once")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return Head(method, path, query, headers, _read_length(method, headers))


# A client sends the same lines again and again, but for the length.
@functools.lru_cache(maxsize=256)
def _read_header(line: bytes) -> tuple[str, str]:
    header = _HEADER.fullmatch(line)
    if header is None:
        raise malformed(f"header {_show(line)}; accepted: Name: value in printable ASCII on one line")
    return header[1].decode().lower(), header[2].decode().rstrip(" \t")


@functools.lru_cache(maxsize=64)
def _read_request_line(line: bytes) -> tuple[str, str, str]:
    request = _REQUEST_LINE.fullmatch(line)
    if request is None:
        raise malformed(f"request line {_show(line)}; accepted: METHOD /path HTTP/1.1 in printable ASCII")
    path, _, query = request[2].decode().partition("?")
    return request[1].decode(), path, query


def _read_length(method: str, headers: Mapping[str, str]) -> int:
    if "host" not in headers:
        raise malformed("it has no Host header")
    if "transfer-encoding" in headers or "content-encoding" in headers:
        raise malformed("it has an encoded body; accepted: a plain body with Content-Length")
    if "expect" in headers:
        # curl sends its body without it after this status.
        raise Rejection(417, Cause.MALFORMED, "header Expect; accepted: a request without it")
    number = headers.get("content-length")
    if number is None:
        if method == "POST":
            raise malformed("it has no Content-Length, which a POST needs")
        return 0
    if not number.isdigit() or len(number) > _MOST_DIGITS:
        raise malformed(f"Content-Length {number[:80]!r}; accepted: a number of at most {_MOST_DIGITS} digits")
    return int(number)


def _show(line: bytes) -> str:
    return ascii(line[:80].decode("latin-1"))


@dataclass(frozen=True, slots=True)
class Call:
    """A GET. ``names``: the parts of its path below that of the page."""

    names: Sequence[str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    has_certificate: bool


VerbHandler: TypeAlias = Callable[[bytes], bytes | Awaitable[bytes]]
"""Takes a body and returns the JSON of a 200. Its exceptions are answered as `answers.respond_to_failure` says."""
CallHandler: TypeAlias = Callable[[Call], Awaitable[web.Response | AsyncGenerator[bytes, None]]]
"""Returns an answer, or the pieces of a 200 of JSON that are sent as they come."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A path that is POSTed to. ``largest``: the bytes that its body may have, asked at each request."""

    path: str
    answer: VerbHandler
    largest: Callable[[], int] | None = None
    """None for the server's own limit, which holds in any case."""


@dataclass(frozen=True, slots=True)
class GetPath:
    """A path that is read by GET, with and without a slash at its end. ``counts``: how many parts may follow it."""

    path: str
    answer: CallHandler
    counts: Sequence[int] = (0,)


def find_page(pages: Sequence[GetPath], path: str) -> tuple[GetPath, list[str]] | None:
    """Find the page of a path, and the parts that follow it, decoded."""
    for page in pages:
        if f"{path}/".startswith(f"{page.path}/"):
            names = [unquote(part) for part in path[len(page.path) :].removesuffix("/").split("/")[1:]]
            if len(names) in page.counts and all(names):
                return page, names
    return None
