"""HTTP requests and streams to the API server, with current credentials, timeouts, limits and our own errors.

No other module uses aiohttp for the API server. Redirects are not followed: an API server sends none, and a token must
not be sent to another server.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import aiohttp
from yarl import URL

from gcushare.core.errors import ConfigError, GcushareError
from gcushare.kube import errors
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.direct import DirectPosts

T = TypeVar("T")

MAX_ANSWER_BYTES = 512 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_READ_CHUNK_BYTES = 256 * 1024
_RETIRED_S = 600.0
"""How long requests may continue on a connection with a previous client certificate. A watch takes minutes."""

TRANSPORT_FAILURES = (aiohttp.ClientError, TimeoutError, OSError, asyncio.IncompleteReadError)
"""The exceptions of aiohttp while connecting, sending and reading. ``error_of_transport`` converts them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Timeouts and limits of the client."""

    request_s: float = 10.0
    """Timeout of one request, without getting credentials. A healthy server answers in milliseconds."""
    list_page_s: float = 60.0
    """Timeout of one page of a list: it has megabytes, and the server may read them from etcd."""
    connect_s: float = 5.0
    connections: int = 64
    """Simultaneous connections. Each watch uses one; the rest limits a burst of binds."""
    answer_bytes: int = MAX_ANSWER_BYTES
    """Largest accepted answer. A list of 50,000 pods from an old server without paging has about half of it."""
    page_bytes: int = 64 * 1024 * 1024
    """Largest page that is read before fewer objects are asked for. 250 pods of usual size have less than a tenth of
    it; as large as their authors can make them, 500 MB, and a page is in memory twice while it is put together."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``path`` includes the query. ``verb`` and ``resource`` are metric labels."""

    method: str
    path: str
    verb: str
    resource: str
    body: bytes | None = None
    content_type: str | None = None
    timeout_s: float | None = None
    most_bytes: int = MAX_ANSWER_BYTES
    """Largest answer that is read."""

    @property
    def attempt(self) -> errors.FailedRequest:
        """The request for error messages, without the query, because a continue token is long."""
        return errors.FailedRequest(f"{self.method} {self.path.partition('?')[0]}", writes=self.method != "GET")


Observer = Callable[[str, str, int], None]
"""Takes the verb and the resource of each request, and the code of its answer, 0 without one."""


class ApiTransport(Protocol):
    """Sends requests to an API server. `Transport` implements it over HTTP and documents each method."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, request: Request) -> tuple[bytes, str]: ...

    async def post(self, request: Request) -> None: ...

    def stream(self, request: Request, stall_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


@dataclass(frozen=True, slots=True)
class _Pools:
    """Persistent connections with the same client certificate, or none. ``direct`` does not use a proxy."""

    session: aiohttp.ClientSession
    direct: DirectPosts

    async def close(self) -> None:
        await self.direct.close()
        await self.session.close()


class Transport:
    """Sends requests to one API server over pools of persistent connections. Call ``open`` first."""

    def __init__(self, config: KubeConfig, user_agent: str, limits: Limits, observer: Observer | None) -> None:
        self._config = config
        self._user_agent = user_agent
        self._limits = limits
        self._observer = observer
        self._pools: _Pools | None = None
        self._generation = 0
        self._retired: list[tuple[float, _Pools]] = []
        """Pools with a previous certificate, and since when. Requests under way end on them."""

    async def open(self) -> None:
        self._pools = self._make_pools()

    def _make_pools(self) -> _Pools:
        headers = (
            ("User-Agent", self._user_agent),
            ("Accept", "application/json"),
            # identity: in a cluster's network, it costs the API server more to compress lists than to send them.
            ("Accept-Encoding", "identity"),
            *self._config.impersonation,
        )
        config, limits = self._config, self._limits
        context = None
        if config.server.startswith("https://"):
            context = config.ssl or ssl.create_default_context()
        direct = DirectPosts(
            config.server, context, config.tls_server_name, headers, limits.connect_s, limits.connections
        )
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limits.connections, ssl=config.ssl or True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            read_bufsize=_READ_CHUNK_BYTES,
        )
        return _Pools(session, direct)

    async def close(self) -> None:
        pools = [pools for _, pools in self._retired]
        if self._pools is not None:
            pools.append(self._pools)
        self._pools, self._retired = None, []
        for each in pools:
            await each.close()

    async def send(self, request: Request) -> tuple[bytes, str]:
        """Send a request and return the body of a successful answer with its Date header, "" without one.

        Raises:
            AnswerTooLargeError: the answer is larger.
            GcushareError: any failure; see ``gcushare.kube.errors``.
        """
        limit_bytes = min(self._limits.answer_bytes, request.most_bytes)
        response = await self._answer(request, total_s=request.timeout_s or self._limits.request_s)
        parts: list[bytes] = []
        size = 0
        async with response, aclosing(_chunks(response, request.attempt)) as chunks:
            async for chunk in chunks:
                size += len(chunk)
                if size > limit_bytes:
                    text = f"{request.attempt.text} was answered with more than {limit_bytes} bytes"
                    raise errors.AnswerTooLargeError(text)
                parts.append(chunk)
        return b"".join(parts), response.headers.get("Date", "")

    async def post(self, request: Request) -> None:
        """Send a POST at the lowest cost, without reading the body of a successful answer.

        Raises:
            GcushareError: as ``send``.
        """
        if self._config.proxy is not None:
            await self.send(request)
            return
        timeout_s = request.timeout_s or self._limits.request_s

        async def post_once(pools: _Pools, header: str | None) -> None:
            try:
                code, failure = await pools.direct.post(
                    request.path, request.body or b"", _headers(request, header), timeout_s
                )
            except TRANSPORT_FAILURES as error:
                self._report(request, 0)
                raise error_of_transport(request.attempt, error) from error
            self._report(request, code)
            if failure is not None:
                raise self._error_of(request, failure)

        await self._with_credentials(post_once)

    async def _with_credentials(self, send: Callable[[_Pools, str | None], Awaitable[T]]) -> T:
        """Send with the current credentials. After a 401, get newer ones once and send again."""
        credentials = self._config.credentials
        header = await credentials.header()
        pools = await self._current_pools()
        generation = self._generation
        try:
            return await send(pools, header)
        except errors.UnauthorizedError:
            # A request that got a 401 had no effect, so even a write may be sent again.
            if credentials.generation == generation:
                credentials.reject(header)
            fresh = await credentials.header()
            if fresh == header and credentials.generation == generation:
                raise
        return await send(await self._current_pools(), fresh)

    async def _current_pools(self) -> _Pools:
        if self._pools is None:
            raise RuntimeError("the client is not open: use it inside 'async with KubeClient(...)'")
        if self._generation == self._config.credentials.generation:
            return self._pools
        self._generation = self._config.credentials.generation
        now = time.monotonic()
        self._retired.append((now, self._pools))
        current = self._pools = self._make_pools()
        over = [each for each in self._retired if each[0] <= now - _RETIRED_S]
        self._retired = [each for each in self._retired if each not in over]
        for _, pools in over:
            await pools.close()
        return current

    @asynccontextmanager
    async def stream(self, request: Request, stall_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a GET with an endless answer, and yield its chunks. Fails after ``stall_s`` without a byte.

        Raises:
            GcushareError: any failure, on entering or while iterating; ``UnansweredError`` for a stalled stream.
        """
        response = await self._answer(request, stall_s=stall_s)
        async with response, aclosing(_chunks(response, request.attempt)) as chunks:
            yield chunks

    async def _answer(
        self, request: Request, *, total_s: float | None = None, stall_s: float | None = None
    ) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(total=total_s, sock_connect=self._limits.connect_s, sock_read=stall_s)
        return await self._with_credentials(lambda pools, header: self._once(pools, request, timeout, header))

    async def _once(
        self, pools: _Pools, request: Request, timeout: aiohttp.ClientTimeout, header: str | None
    ) -> aiohttp.ClientResponse:
        try:
            response = await pools.session.request(
                request.method,
                URL(self._config.server + request.path, encoded=True),
                data=request.body,
                headers=_headers(request, header),
                timeout=timeout,
                allow_redirects=False,
                proxy=self._config.proxy,
                server_hostname=self._config.tls_server_name,
            )
        except TRANSPORT_FAILURES as error:
            self._report(request, 0)
            raise error_of_transport(request.attempt, error) from error
        self._report(request, response.status)
        if 200 <= response.status < 300:
            return response
        start = b""
        async with response, aclosing(_chunks(response, request.attempt)) as chunks:
            async for chunk in chunks:
                start += chunk
                if len(start) >= _MAX_ERROR_BYTES:
                    break
        failure = errors.HttpFailure(response.status, start[:_MAX_ERROR_BYTES], response.headers.get("Retry-After"))
        raise self._error_of(request, failure)

    def _error_of(self, request: Request, failure: errors.HttpFailure) -> GcushareError:
        error = errors.error_of_answer(request.attempt, failure)
        if isinstance(error, errors.UnauthorizedError):
            return errors.UnauthorizedError(f"{error}; the credentials are from {self._config.source}")
        if isinstance(error, errors.NotAnApiServerError):
            return errors.NotAnApiServerError(f"{error}; {self._config.address}")
        return error

    def _report(self, request: Request, code: int) -> None:
        if self._observer is not None:
            self._observer(request.verb, request.resource, code)


def _headers(request: Request, authorization: str | None) -> dict[str, str]:
    headers = {} if authorization is None else {"Authorization": authorization}
    if request.content_type is not None:
        headers["Content-Type"] = request.content_type
    return headers


async def _chunks(response: aiohttp.ClientResponse, attempt: errors.FailedRequest) -> AsyncGenerator[bytes, None]:
    # Only errors of reading are converted, not those of the chunk's consumer.
    chunks = response.content.iter_any()
    while True:
        try:
            chunk = await anext(chunks, b"")
        except TRANSPORT_FAILURES as error:
            raise error_of_transport(attempt, error) from error
        if not chunk:
            return
        yield chunk


def error_of_transport(attempt: errors.FailedRequest, failure: Exception) -> GcushareError:
    """Choose the error for a request without a complete answer.

    Without a connection, the request had no effect. After that, a write may have had one.
    """
    if isinstance(failure, GcushareError):
        return failure
    text = f"{attempt.text} failed: {errors.describe(failure)}"
    if isinstance(failure, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return ConfigError(f"{text}; check the certificate authority and the server's address in the configuration")
    if isinstance(failure, aiohttp.InvalidURL | aiohttp.TooManyRedirects):
        return ConfigError(text)
    if isinstance(failure, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | errors.NotConnectedError):
        return errors.UnansweredError(f"{text}; nothing was sent")
    if attempt.writes:
        return errors.UnknownOutcomeError(f"{text}; it may have taken effect")
    return errors.UnansweredError(text)
