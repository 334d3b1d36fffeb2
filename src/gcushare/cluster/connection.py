"""Opens the API server that a program's or a command's settings name."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import find_api_server
from gcushare.kube.connection.transport import Observer
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
