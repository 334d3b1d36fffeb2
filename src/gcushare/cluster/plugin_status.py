"""Reads a device plugin's status at the plugin's own address, without the API server."""

from __future__ import annotations

from pathlib import Path

from gcushare.core.errors import ConfigError, GcushareError, RemoteContractError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.credentials import client_context
from gcushare.kube.connection.transport import Limits
from gcushare.wire.documents.plugin_status import MAX_STATUS_BYTES, PLUGIN_STATUS, PluginStatus

_LIMITS = Limits(request_s=5.0, answer_bytes=MAX_STATUS_BYTES)


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
    url = base_url.rstrip("/")
    context = client_context(None, url, verify=not trusts_any) if url.startswith("https:") else None
    if context is not None and cert_file is not None:
        try:
            context.load_cert_chain(cert_file, key_file)
        except OSError as error:
            raise ConfigError(f"{cert_file} with {key_file} cannot be used: {error}") from error
    config = KubeConfig(server=url, source=url, ssl=context)
    try:
        async with KubeClient(config, program="gcushare", limits=_LIMITS) as client:
            return PLUGIN_STATUS.read(await client.get_raw("/status", "address"))
    except RetryableError as error:
        raise RetryableError(f"no plugin answers at {url}/status: {error}; {hint}") from error
    except GcushareError as error:
        raise RemoteContractError(f"{url}/status answers no plugin's status: {error}; {hint}") from error
