"""The device plugins' pods, and what they answer through the API server's proxy."""

from __future__ import annotations

from gcushare.cluster.endpoints import proxied_pod
from gcushare.cluster.program_pods import SeenPod
from gcushare.cluster.programs import STATUS_PORT, Program, program_of
from gcushare.cluster.settings import PluginPodSettings
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import Resource, Selector

_PODS: Resource[SeenPod] = Resource("api/v1", "pods", SeenPod)
_PLUGIN_NAMES = ("gcushare-device-plugin", "gpushare-device-plugin")


async def list_plugin_pods(api: KubeClient, place: PluginPodSettings, *, node: str | None = None) -> list[SeenPod]:
    """List the plugins that run, on one node or on all, by name.

    Without a selector they are known by their pods' names, or by the command or image that they run.

    Raises:
        GcushareError: the pods cannot be listed.
    """
    fields = f"spec.nodeName={node}" if node is not None else ""
    found = await api.list_all(_PODS, Selector(place.plugin_namespace, fields, place.plugin_selector or ""))
    running = (pod for pod in found if pod.status.phase in ("Running", ""))
    plugins = (pod for pod in running if place.plugin_selector is not None or _is_plugin(pod))
    return sorted(plugins, key=lambda pod: pod.key)


async def fetch_from_plugin(api: KubeClient, place: PluginPodSettings, pod: SeenPod, page: str) -> bytes:
    """Read one page (``metrics``, ``status``) of a plugin through the API server.

    Raises:
        GcushareError: the plugin or the API server does not answer, or the caller may not ask.
    """
    endpoint = proxied_pod(api, pod, STATUS_PORT, port=place.plugin_port, tls=place.plugin_tls)
    return await endpoint.get(f"/{page}")


def _is_plugin(pod: SeenPod) -> bool:
    return program_of(pod) is Program.PLUGIN or any(name in pod.metadata.name for name in _PLUGIN_NAMES)
