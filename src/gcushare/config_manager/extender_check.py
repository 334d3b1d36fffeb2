"""Asks the extender with the scheduler's own certificate before the scheduler is sent there."""

from __future__ import annotations

import ssl
import tempfile

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from gcushare.config_manager.scheduler_config.extender_entry import ExtenderSettings, ExtenderTls
from gcushare.core.errors import ConfigError, RetryableError
from gcushare.wire.scheduler_port import ASKED_PATH

_TIMEOUT = ClientTimeout(total=5.0)


async def ask_extender(settings: ExtenderSettings) -> None:
    """Return when the extender answers over mutual TLS, or the scheduler needs no certificate for it.

    Raises:
        RetryableError: it does not answer, or one side does not take the other's certificate.
        ConfigError: certificate and key do not belong together, or are none.
    """
    tls = settings.tls
    if tls is None or not tls.certificate:
        return
    url = settings.url.rstrip("/") + ASKED_PATH
    connector = TCPConnector(ssl=_context(tls), force_close=True)
    try:
        async with (
            ClientSession(connector=connector, timeout=_TIMEOUT) as session,
            session.get(url, server_hostname=tls.server_name or None, allow_redirects=False) as answer,
        ):
            status = answer.status
    except (ClientError, TimeoutError, OSError) as error:
        raise RetryableError(_refusal(url, f"{type(error).__name__}: {error}")) from error
    if status != 200:
        raise RetryableError(_refusal(url, f"it answers {status}"))


def _refusal(url: str, reason: str) -> str:
    return (
        f"the extender does not answer over mutual TLS, so the scheduler is left as it is: GET {url}: {reason}; see "
        "whether a replica of the extender is ready, and what `gcushare doctor` says of certificates"
    )


def _context(tls: ExtenderTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=tls.ca.decode("ascii"))
        # OpenSSL takes a key from files only; this one is its owner's alone, and gone after the next line.
        with tempfile.NamedTemporaryFile(prefix="gcushare-", suffix=".pem") as file:
            file.write(tls.certificate + b"\n" + tls.key)
            file.flush()
            context.load_cert_chain(file.name)
    except (ValueError, OSError) as error:
        raise ConfigError(
            f"the scheduler's certificates cannot be used: {error}; see tls-ca, tls-cert, tls-key"
        ) from error
    return context
