"""``--status``: ask the plugin that runs on this node what it believes."""

from __future__ import annotations

import asyncio
import ssl
from typing import TextIO

import aiohttp
import msgspec

from gcushare.core.errors import ConfigError, RemoteContractError, RetryableError
from gcushare.device_plugin.status import NodeStatus
from gcushare.device_plugin.status_text import render_status
from gcushare.runtime.exits import DONE, FAILED
from gcushare.runtime.groups import ServeSettings

ANSWER_TIMEOUT_S = 5.0
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def print_status(settings: ServeSettings, stdout: TextIO) -> int:
    """Print what the running plugin believes; the exit code is 0 when it names no problem, else 1.

    Raises:
        RetryableError: nothing answers at the port.
        RemoteContractError: what answers is no plugin.
    """
    status = asyncio.run(fetch_status(settings))
    stdout.write(render_status(status))
    return FAILED if status.problems else DONE


async def fetch_status(settings: ServeSettings) -> NodeStatus:
    """Ask the plugin that these settings describe; raises as ``print_status``."""
    url = f"{'https' if settings.tls_cert_file else 'http'}://{_host(settings)}:{settings.listen_port}/status"
    timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
    connector = aiohttp.TCPConnector(ssl=_tls(settings), force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session, session.get(url) as answer:
            code, body = answer.status, await answer.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        why = f"{type(error).__name__}: {error}".rstrip(": ")
        raise RetryableError(f"no plugin answers at {url}: {why}; give the --listen-port that it runs with") from error
    try:
        return msgspec.json.decode(body, type=NodeStatus)
    except msgspec.MsgspecError as error:
        raise RemoteContractError(f"{url} answers {code} and no plugin's status: {error}") from error


def _host(settings: ServeSettings) -> str:
    address = settings.listen_address
    return _WILDCARDS.get(address, f"[{address}]" if ":" in address else address)


def _tls(settings: ServeSettings) -> ssl.SSLContext | bool:
    """Our own certificate names a service, not the loopback, and is what we show where clients need one."""
    if settings.tls_cert_file is None:
        return True
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
    except OSError as error:
        raise ConfigError(f"{settings.tls_cert_file} with {settings.tls_key_file} cannot be used: {error}") from error
    return context
