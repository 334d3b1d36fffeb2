"""Reads a device plugin's status at the plugin's own address, without the API server."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from gcushare.core.errors import ConfigError, RemoteContractError, RetryableError
from gcushare.wire.documents.plugin_status import MAX_STATUS_BYTES, PLUGIN_STATUS, PluginStatus

ANSWER_TIMEOUT_S = 5.0


def _tls_context(cert_file: Path | None, key_file: Path | None, *, trusts_any: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if trusts_any:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert_file is None:
        return context
    try:
        context.load_cert_chain(cert_file, key_file)
    except OSError as error:
        raise ConfigError(f"{cert_file} with {key_file} cannot be used: {error}") from error
    return context


class _Connector(aiohttp.TCPConnector):
    """A connector that can close its connections at once.

    After an answer with ``Connection: close`` aiohttp starts the TLS shutdown of a connection and drops it from its
    pool. The caller's loop may end before the shutdown does, which would leave the socket open.
    """

    _transports: tuple[asyncio.Transport, ...] = ()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if connection.transport is not None:
            self._transports += (connection.transport,)
        return connection

    def abort(self) -> None:
        """Close every connection without a TLS shutdown. Call it once all answers were read."""
        for transport in self._transports:
            transport.abort()


async def fetch_status(
    base_url: str, hint: str, *, trusts_any: bool, cert_file: Path | None = None, key_file: Path | None = None
) -> PluginStatus:
    """Ask the plugin at ``base_url``; ``hint`` says what to do if nothing answers.

    The files have the client certificate to show if the plugin asks for one. ``trusts_any`` is for loopback addresses
    only: a plugin's certificate names a service, not the loopback.

    Raises:
        ConfigError: a TLS file cannot be used.
        RetryableError: nothing answers there.
        RemoteContractError: another program answers there.
    """
    url = f"{base_url.rstrip('/')}/status"
    trust: ssl.SSLContext | bool = (
        _tls_context(cert_file, key_file, trusts_any=trusts_any) if url.startswith("https:") else True
    )
    timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
    connector = _Connector(ssl=trust)
    try:
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session, session.get(url) as answer:
            code, body = answer.status, await _read(answer, url)
    except (aiohttp.ClientError, TimeoutError) as error:
        why = f"{type(error).__name__}: {error}".rstrip(": ")
        raise RetryableError(f"no plugin answers at {url}: {why}; {hint}") from error
    finally:
        connector.abort()
    try:
        return PLUGIN_STATUS.read(body)
    except RemoteContractError as error:
        raise RemoteContractError(f"{url} answers {code} and not a plugin's status: {error}; {hint}") from error


async def _read(answer: aiohttp.ClientResponse, url: str) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > MAX_STATUS_BYTES:
            raise RemoteContractError(f"{url} answers more than {MAX_STATUS_BYTES} bytes: it is not a plugin's status")
    return bytes(body)
