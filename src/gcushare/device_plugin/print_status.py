"""``--status``: ask the plugin that runs on this node what it believes."""

from __future__ import annotations

import asyncio
from typing import TextIO

from gcushare.cluster.plugin_status import ClientTls, fetch_status
from gcushare.device_plugin.reporting.status_text import render_status
from gcushare.runtime.exit_codes import DONE, FAILED
from gcushare.runtime.settings.groups import ServeSettings

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def print_status(settings: ServeSettings, stdout: TextIO) -> int:
    """Print what the running plugin believes; the exit code is 0 when it names no problem, else 1.

    Raises:
        RetryableError: nothing answers at the port.
        RemoteContractError: what answers is no plugin.
    """
    url = f"{'https' if settings.tls_cert_file else 'http'}://{_host(settings)}:{settings.listen_port}"
    # Our own certificate is also what we show where clients need one.
    tls = ClientTls(cert_file=settings.tls_cert_file, key_file=settings.tls_key_file, trusts_any=True)
    status = asyncio.run(fetch_status(url, tls, "give the --listen-port that it runs with"))
    stdout.write(render_status(status))
    return FAILED if status.problems else DONE


def _host(settings: ServeSettings) -> str:
    address = settings.listen_address
    return _WILDCARDS.get(address, f"[{address}]" if ":" in address else address)
