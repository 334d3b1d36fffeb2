"""Sends POSTs on the hot path over its own persistent connections, without a general HTTP client.

The scheduler extender sends one such request per bound pod. aiohttp's request, response and stream objects would take
as long as the rest of a bind. Answers are read in the two forms of HTTP/1.1: with a length, or in chunks. Timeouts,
limits and errors are the same as in ``transport``.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import cast

import aiohttp
from yarl import URL

from gcushare.core.errors import ConfigError
from gcushare.core.wording import counted
from gcushare.kube.errors import HttpFailure, NotConnectedError, describe

_IDLE_S = 15.0
"""A connection that was idle this long is not used again, because the server may be closing it."""
_LONGEST_HEAD = 64 * 1024
_LONGEST_BODY = 64 * 1024
"""The answer to a bind is a Status. More than this of a proxy's page is not needed."""


@dataclass(slots=True)
class _HttpAnswer:
    code: int
    headers: dict[str, str]
    body: bytes
    is_last: bool


class _Connection(asyncio.Protocol):
    """One connection, with at most one request on it."""

    def __init__(self, idle: list[_Connection]) -> None:
        self._idle = idle
        self._received = b""
        self._waiter: asyncio.Future[_HttpAnswer] | None = None
        self.transport: asyncio.Transport
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._waiter is None or self._waiter.done():
            self.transport.abort()  # Data without a request would be read as the next answer.
            return
        try:
            answer = _read_answer(self._received)
        except ValueError as error:
            self._fail(aiohttp.ClientPayloadError(f"the answer is not HTTP: {error}"))
            return
        if answer is not None:
            self._received = b""
            self._waiter.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._idle:
            self._idle.remove(self)
        self._fail(exc or aiohttp.ServerDisconnectedError())

    async def ask(self, request: bytes) -> _HttpAnswer:
        """Send a request and wait for its answer. If that fails or is cancelled, the connection is closed."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            if self.transport.is_closing():
                raise aiohttp.ServerDisconnectedError
            self.transport.write(request)
            return await self._waiter
        except BaseException:
            self.transport.abort()
            raise
        finally:
            self._waiter = None

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


@dataclass(slots=True)
class DirectPosts:
    """Sends POSTs to one server over at most ``connections`` connections. ``headers`` are those of every request."""

    server: str
    context: ssl.SSLContext | None
    server_name: str | None
    headers: tuple[tuple[str, str], ...]
    connect_s: float
    connections: int
    _idle: list[_Connection] = field(default_factory=list)
    _open: set[_Connection] = field(default_factory=set)
    _places: asyncio.Semaphore = field(init=False)
    _url: URL = field(init=False)
    _head: str = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.connections)
        self._url = URL(self.server)
        host = self._url.authority if self._url.explicit_port else str(self._url.host_subcomponent)
        self._head = "".join(_header(name, value) for name, value in (("Host", host), *self.headers))

    async def post(
        self, path: str, body: bytes, headers: dict[str, str], timeout_s: float
    ) -> tuple[int, HttpFailure | None]:
        """Send a request; returns the status code and, if it is not a success, the failure.

        Raises:
            NotConnectedError: no connection was established or became free in time; nothing was sent.
            aiohttp.ClientError, OSError, TimeoutError: no answer; the request may have taken effect.
        """
        more = "".join(_header(name, value) for name, value in headers.items())
        # A server behind a proxy may have a path prefix.
        first = f"POST {self._url.raw_path.rstrip('/')}{path} HTTP/1.1\r\n"
        head = f"{first}{self._head}{more}Content-Length: {len(body)}\r\n\r\n"
        has_place = is_sent = False
        try:
            async with asyncio.timeout(timeout_s), self._places:
                has_place = True
                connection = self._find_idle() or await self._connect(timeout_s)
                is_sent = True
                answer = await connection.ask(head.encode() + body)
        except TimeoutError as error:
            if is_sent:
                raise
            none_free = f"none of {counted(self.connections, 'connection')} became free"
            reason = "the server did not accept a connection" if has_place else none_free
            raise NotConnectedError(f"{self.server}: {reason} in {timeout_s:g}s") from error
        if answer.is_last:
            connection.transport.close()
        else:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        if 200 <= answer.code < 300:
            return answer.code, None
        return answer.code, HttpFailure(answer.code, answer.body, answer.headers.get("retry-after"))

    async def close(self) -> None:
        for connection in tuple(self._open):
            connection.transport.abort()
        self._open.clear()

    def _find_idle(self) -> _Connection | None:
        oldest_s = asyncio.get_running_loop().time() - _IDLE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since >= oldest_s and not connection.transport.is_closing():
                return connection
            connection.transport.close()
        return None

    async def _connect(self, timeout_s: float) -> _Connection:
        host = self._url.host or ""
        try:
            async with asyncio.timeout(min(timeout_s, self.connect_s)):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self._idle),
                    host,
                    self._url.port or 443,
                    ssl=self.context,
                    server_hostname=(self.server_name or host) if self.context is not None else None,
                )
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:  # TimeoutError is one
            raise NotConnectedError(f"{self.server}: {describe(error)}") from error
        self._open = {each for each in self._open if not each.transport.is_closing()} | {connection}
        return connection


def _header(name: str, value: str) -> str:
    if not (name.isprintable() and value.isprintable()):
        raise ConfigError(f"header {name!r} contains a line break or another invalid character")
    return f"{name}: {value}\r\n"


def _read_answer(data: bytes) -> _HttpAnswer | None:
    """Read an answer; None while it is incomplete.

    Raises:
        ValueError: it is not an HTTP/1.1 answer.
    """
    start = 0
    while True:
        end = data.find(b"\r\n\r\n", start)
        if end < 0:
            if len(data) - start > _LONGEST_HEAD:
                raise ValueError("its head has no end")
            return None
        first, *lines = data[start:end].decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        code = status[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or not code.isdigit():
            raise ValueError(f"it begins with {first[:80]!r}")
        start = end + 4
        if not code.startswith("1"):  # Interim answers are skipped.
            break
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    is_last = version == "HTTP/1.0" or "close" in headers.get("connection", "").lower()
    found = (b"", data[start:]) if code in ("204", "304") else _read_body(data[start:], headers)
    if found is None:
        return None
    body, rest = found
    return _HttpAnswer(int(code), headers, body, is_last or rest != b"")


def _read_body(data: bytes, headers: dict[str, str]) -> tuple[bytes, bytes] | None:
    """Read a complete body, or the start of a too long one, and the data after it; None while it is incomplete."""
    if len(data) > _LONGEST_BODY:
        return data[:_LONGEST_BODY], data[_LONGEST_BODY:]
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _join_chunks(data)
    digits = headers.get("content-length", "")
    if not digits.isdigit():
        raise ValueError(f"its Content-Length is {digits[:80]!r}")
    size = int(digits)
    return (data[:size], data[size:]) if len(data) >= size else None


def _join_chunks(data: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while True:
        size_text, found, rest = data.partition(b"\r\n")
        if not found:
            return None
        size = int(size_text.partition(b";")[0], 16)
        if len(rest) < size + 2:
            return None
        if size == 0:
            return body, rest[2:]
        body += rest[:size]
        data = rest[size + 2 :]
