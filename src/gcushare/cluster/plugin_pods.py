"""The device plugins' pods, and what they answer through the API server's proxy."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from gcushare.cluster.settings import PluginPodSettings
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import Resource, Selector
from gcushare.wire.command_lines import flag_of
from gcushare.wire.foreign import Int
from gcushare.wire.objects import Container, ObjectMeta, Pod, PodSpec, PodStatus

POD_PROXY = "pods/proxy"
"""The resource that asking them needs the right to get."""

DEFAULT_PORT = 32767
"""Where a plugin answers whose pod declares no port."""
_PORT_NAME = "status"
"""The port's name in the charts' DaemonSet."""
_CERTIFICATE_FLAG = "tls-cert-file"
_CERTIFICATE_VARIABLE = "GCUSHARE_TLS_CERT_FILE"
"""A plugin that is given its certificate one way or the other answers HTTPS."""
_PLUGIN_NAMES = ("gcushare-device-plugin", "gpushare-device-plugin")


class _Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    container_port: Int = 0
    name: str = ""


class _Variable(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    value: str = ""


class _Container(Container, frozen=True, gc=False, kw_only=True, rename="camel"):
    ports: tuple[_Port, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[_Variable, ...] = ()


class _Spec(PodSpec, frozen=True, gc=False, kw_only=True, rename="camel"):
    containers: tuple[_Container, ...] = ()


class PluginPod(Pod, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A plugin's pod, with the ports that it declares and whether it answers HTTPS there."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: PodStatus = PodStatus()

    @property
    def port(self) -> int:
        """Where it answers HTTP, as far as it says: the port named as in the charts, else its first."""
        ports = [port for container in self.spec.containers for port in container.ports]
        named = [port.container_port for port in ports if port.name == _PORT_NAME]
        return next(iter([*named, *(port.container_port for port in ports)]), DEFAULT_PORT)

    @property
    def has_tls(self) -> bool:
        """Whether its program is given a certificate."""
        return any(
            flag_of((*container.command, *container.args), _CERTIFICATE_FLAG)
            or any(variable.name == _CERTIFICATE_VARIABLE and variable.value for variable in container.env)
            for container in self.spec.containers
        )


_PLUGIN_PODS: Resource[PluginPod] = Resource("api/v1", "pods", PluginPod)


async def list_plugin_pods(api: KubeClient, place: PluginPodSettings, *, node: str | None = None) -> list[PluginPod]:
    """List the plugins that run, on one node or on all, by name.

    Raises:
        GcushareError: the pods cannot be listed.
    """
    fields = f"spec.nodeName={node}" if node is not None else ""
    found = await api.list_all(_PLUGIN_PODS, Selector(place.plugin_namespace, fields, place.plugin_selector or ""))
    return sorted((pod for pod in found if _is_plugin(pod, place)), key=lambda pod: pod.key)


async def fetch_from_plugin(api: KubeClient, place: PluginPodSettings, pod: PluginPod, page: str) -> bytes:
    """Read one page (``metrics``, ``status``) of a plugin through the API server.

    Raises:
        GcushareError: the plugin or the API server does not answer, or the caller may not ask.
    """
    namespace, name = (quote(part, safe="") for part in (pod.metadata.namespace, pod.metadata.name))
    port = place.plugin_port if place.plugin_port is not None else pod.port
    has_tls = place.plugin_tls if place.plugin_tls is not None else pod.has_tls
    word = f"{'https' if has_tls else 'http'}:{name}:{port}"
    return await api.get_raw(f"/api/v1/namespaces/{namespace}/pods/{word}/proxy/{page}", POD_PROXY)


def _is_plugin(pod: Pod, place: PluginPodSettings) -> bool:
    """Whether a pod is a device plugin of this system: by the labels asked for, else by its name."""
    if pod.status.phase not in ("Running", ""):
        return False
    return place.plugin_selector is not None or any(name in pod.metadata.name for name in _PLUGIN_NAMES)
