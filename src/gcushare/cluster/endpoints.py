"""Where a program answers HTTP: its pod or its Service through the API server's proxy, or an address of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from gcushare.cluster.programs import Program, SeenPod, Service, has_tls, port_of, program_of
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.resources import Resource
from gcushare.wire.contracts import DEVICE_PLUGIN

POD_PROXY, SERVICE_PROXY = "pods/proxy", "services/proxy"
"""The resources that asking through the API server needs the right to get."""

PLUGIN_PODS: Resource[SeenPod] = Resource("api/v1", "pods", SeenPod)
_PLUGIN_NAMES = (DEVICE_PLUGIN, "gpushare-device-plugin")
"""Parts of the names of plugins' pods: ours, and upstream gpushare's."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A prefix of paths at some server; ``resource`` is what the proxy's right is named by, empty without a proxy."""

    client: KubeClient
    prefix: str
    resource: str = ""

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
        """Read a page.

        Raises:
            GcushareError: the program or the API server does not answer, or the caller may not ask.
        """
        return await self.client.get_raw(f"{self.prefix}{path}", self.resource or "address", timeout_s=timeout_s)


def proxied_pod(client: KubeClient, pod: SeenPod, *, port: int | None = None, tls: bool | None = None) -> Endpoint:
    """A program's pod, through the API server; port and TLS are what the pod says where they are not given."""
    scheme = "https" if (has_tls(pod) if tls is None else tls) else "http"
    namespace, name = quote(pod.metadata.namespace, safe=""), quote(pod.metadata.name, safe="")
    place = f"{scheme}:{name}:{port or port_of(pod)}"
    return Endpoint(client, f"/api/v1/namespaces/{namespace}/pods/{place}/proxy", POD_PROXY)


def proxied_service(client: KubeClient, service: Service) -> Endpoint:
    """The pods that are ready behind a Service, reached through the API server."""
    port = service.spec.ports[0] if service.spec.ports else None
    scheme = "https:" if port is not None and (port.name == "https" or port.port == 443) else ""
    tail = f":{port.port}" if port is not None else ""
    return named_service(client, service.metadata.namespace, f"{scheme}{service.metadata.name}{tail}")


def named_service(client: KubeClient, namespace: str, place: str) -> Endpoint:
    """The Service that ``place`` names as the API server's proxy reads it: ``[https:]NAME[:PORT]``."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/services/{quote(place, safe=':')}/proxy"
    return Endpoint(client, path, SERVICE_PROXY)


@asynccontextmanager
async def at_address(url: str) -> AsyncIterator[Endpoint]:
    """A program at an address of its own; nothing is asked yet."""
    config = KubeConfig(server=url.rstrip("/"), source="--extender-url")
    async with KubeClient(config, program="gcushare") as client:
        yield Endpoint(client, "")


def is_plugin(pod: SeenPod) -> bool:
    """Whether a pod offers its node's cards: a device plugin, by its command, image or name, or a claims driver."""
    is_ours = program_of(pod) in (Program.PLUGIN, Program.CLAIMS_DRIVER)
    return is_ours or any(name in pod.metadata.name for name in _PLUGIN_NAMES)
