"""Opens the API server that a program's or a command's settings name."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.cluster.cluster_flags import ClusterFlags
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import ConfigSources, find_api_server, home_directory
from gcushare.kube.connection.overrides import Overrides
from gcushare.kube.connection.transport import Limits, Observer
from gcushare.runtime.settings.kubernetes import KubeSettings


def open_cluster(
    kube: KubeSettings, environ: Mapping[str, str] | None = None, *, program: str, observer: Observer | None = None
) -> KubeClient:
    """Return a client to enter with ``async with``; ``program`` is its name in the API server's log.

    Raises:
        ConfigError: the kubeconfig cannot be used.
    """
    config = find_api_server(kube.kubeconfig, kube.context, environ)
    return KubeClient(config, program=program, observer=observer)


def sources_of(flags: ClusterFlags, environ: Mapping[str, str]) -> ConfigSources:
    """Where the API server is, by kubectl's own flags."""
    found = dict(environ)
    if flags.kubeconfig is not None:
        found["KUBECONFIG"] = flags.kubeconfig
    return ConfigSources(
        context=flags.context,
        environ=found,
        home=home_directory(environ),
        overrides=Overrides(
            cluster=flags.cluster,
            user=flags.user,
            server=flags.server,
            tls_server_name=flags.tls_server_name,
            certificate_authority=flags.certificate_authority,
            insecure_skip_tls_verify=flags.insecure_skip_tls_verify,
            token=flags.token,
            client_certificate=flags.client_certificate,
            client_key=flags.client_key,
            impersonate=flags.as_,
            impersonate_groups=flags.as_group,
        ),
    )


def limits_of(flags: ClusterFlags) -> Limits:
    """Deadlines of requests, in seconds; the usual ones if the flag is 0."""
    if not flags.request_timeout:
        return Limits()
    return Limits(request_s=flags.request_timeout, list_page_s=flags.request_timeout, connect_s=flags.request_timeout)
