"""Find how kube-scheduler reaches the extender, from the settings and its Service, and check that it answers."""

from __future__ import annotations

from pathlib import Path

from gcushare.cluster.programs import SERVICES
from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry, ExtenderTls
from gcushare.core.errors import ConfigError, GcushareError, RetryableError
from gcushare.core.wording import counted
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.credentials import client_context, load_client_certificate
from gcushare.kube.connection.transport import Limits
from gcushare.wire.contracts import CONFIG_MANAGER, PROBED_PATH, VERBS_PORT_NAME

_CHECK_S = 5.0


async def find_extender(client: KubeClient | ConfigError, options: ExtenderOptions) -> ExtenderEntry:
    """Complete the options with the Service's ClusterIP and port, unless they have a URL.

    It is an address, because kube-scheduler's pod cannot resolve names of the cluster. The port is the Service's first
    one; with a client certificate it is the port of calls over mutual TLS, if the Service has it.

    Raises:
        ConfigError: no URL and no way to the API server, a Service without a ClusterIP, or unusable TLS files.
        NotFoundError: there is no such Service.
    """
    if options.extender_url is not None:
        return _build_entry(options, options.extender_url)
    if isinstance(client, ConfigError):
        raise ConfigError(f"the extender's address is not known: {client}; or give --extender-url")
    service = options.extender_service
    spec = (await client.get(SERVICES, service.name, namespace=service.namespace)).spec
    if spec.cluster_ip in ("", "None") or not spec.ports:
        raise ConfigError(
            f"Service {service} has clusterIP {spec.cluster_ip!r} and {counted(len(spec.ports), 'port')}: "
            "kube-scheduler needs an address, so it must not be headless; or give one with --extender-url"
        )
    scheme = "http" if options.tls_ca is None else "https"
    host = f"[{spec.cluster_ip}]" if ":" in spec.cluster_ip else spec.cluster_ip
    verbs = [port for port in spec.ports if options.tls_cert is not None and port.name == VERBS_PORT_NAME]
    return _build_entry(options, f"{scheme}://{host}:{(verbs or spec.ports)[0].port}")


def _build_entry(options: ExtenderOptions, url: str) -> ExtenderEntry:
    """Build the entry. The TLS files are read each time, so that the next round uses a renewed certificate."""
    files = (options.tls_ca, options.tls_cert, options.tls_key)
    ca, certificate, key = map(_read_pem, files)
    tls = ExtenderTls(ca=ca, server_name=options.server_name, certificate=certificate, key=key) if ca else None
    return ExtenderEntry(url=url, options=options, tls=tls)


def _read_pem(path: Path | None) -> bytes:
    if path is None:
        return b""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"TLS file {str(path)!r} cannot be read: {error.strerror}") from error
    if b"-----BEGIN " not in content:
        raise ConfigError(f"TLS file {str(path)!r} is not PEM: it has no '-----BEGIN' line")
    return content


async def check_extender(entry: ExtenderEntry) -> None:
    """Call the extender with the scheduler's certificate, before the scheduler is configured to do so.

    Returns if it answers over mutual TLS, or the scheduler needs no certificate.

    Raises:
        RetryableError: it does not answer, or one side does not accept the other's certificate.
        ConfigError: certificate and key are invalid or do not belong together.
    """
    tls = entry.tls
    if tls is None or not tls.certificate:
        return
    url = entry.url.rstrip("/")
    where = "the scheduler's certificates (tls-ca, tls-cert, tls-key)"
    context = client_context(tls.ca, where)
    load_client_certificate(context, tls.certificate, tls.key, where)
    config = KubeConfig(url, source=where, ssl=context, tls_server_name=tls.server_name or None)
    try:
        async with KubeClient(config, program=CONFIG_MANAGER, limits=Limits(request_s=_CHECK_S)) as extender:
            await extender.get_raw(PROBED_PATH, "address")
    except GcushareError as error:
        raise RetryableError(
            f"the extender does not answer over mutual TLS, so the scheduler is left as it is: {url}: {error}; "
            "check whether a replica of the extender is ready, and what `gcushare doctor` reports about certificates"
        ) from error
