"""Find how kube-scheduler reaches the extender: from the settings, and the extender's Service in the API server."""

from __future__ import annotations

from pathlib import Path

from gcushare.cluster.programs import Service
from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry, ExtenderTls
from gcushare.core.errors import ConfigError
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import Resource
from gcushare.wire.contracts import VERBS_PORT_NAME

SERVICES = Resource("api/v1", "services", Service)


async def find_extender(client: KubeClient | None, options: ExtenderOptions) -> ExtenderEntry:
    """Complete the options with the Service's ClusterIP and port, unless they have a URL.

    It is an address, because kube-scheduler's pod cannot resolve names of the cluster. The port is the Service's first
    one; with a client certificate it is the port of calls over mutual TLS, if the Service has it.

    Raises:
        ConfigError: no URL and no way to the API server, a Service without a ClusterIP, or unusable TLS files.
        NotFoundError: there is no such Service.
    """
    if options.extender_url is not None:
        return _build_entry(options, options.extender_url)
    if client is None:
        raise ConfigError("the extender's address is not known: give --extender-url, or a way to the API server")
    namespace, _, name = options.extender_service.partition("/")
    spec = (await client.get(SERVICES, name, namespace=namespace)).spec
    if spec.cluster_ip in ("", "None") or not spec.ports:
        raise ConfigError(
            f"Service {namespace}/{name} has clusterIP {spec.cluster_ip!r} and {len(spec.ports)} ports: "
            "kube-scheduler needs an address, so it must not be headless; or give one with --extender-url"
        )
    scheme = "http" if options.tls_ca is None else "https"
    host = f"[{spec.cluster_ip}]" if ":" in spec.cluster_ip else spec.cluster_ip
    verbs = [port for port in spec.ports if options.tls_cert is not None and port.name == VERBS_PORT_NAME]
    return _build_entry(options, f"{scheme}://{host}:{(verbs or spec.ports)[0].port}")


def _build_entry(options: ExtenderOptions, url: str) -> ExtenderEntry:
    """Build the entry. The TLS files are read each time, so that the next round uses a renewed certificate.

    Raises:
        ConfigError: a TLS file cannot be read, or the options contradict each other.
    """
    tls = None
    if options.tls_ca is not None:
        tls = ExtenderTls(
            ca=_read_pem(options.tls_ca),
            server_name=options.server_name,
            certificate=_read_pem(options.tls_cert),
            key=_read_pem(options.tls_key),
        )
    return ExtenderEntry(
        url=url,
        vendors=options.vendors,
        whole_cards=options.whole_cards,
        claims=options.claims,
        weight=options.weight,
        timeout_s=options.timeout,
        ignorable=options.ignorable,
        tls=tls,
    )


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
