"""The device plugins' pods, and what they answer through the API server's proxy."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import quote

from gcushare.kube.client import KubeClient
from gcushare.kube.resources import PODS, Selector
from gcushare.wire.objects import Pod

POD_PROXY = "pods/proxy"
"""The resource that asking them needs the right to get."""

_PLUGIN_NAMES = ("gcushare-device-plugin", "gpushare-device-plugin")


class PluginPlace(Protocol):
    """Where the plugins' pods are and how they answer; without a selector they are known by their names."""

    @property
    def plugin_namespace(self) -> str: ...

    @property
    def plugin_port(self) -> int: ...

    @property
    def plugin_tls(self) -> bool: ...

    @property
    def plugin_selector(self) -> str | None: ...


async def list_plugin_pods(api: KubeClient, place: PluginPlace, *, node: str | None = None) -> list[Pod]:
    """List the plugins that run, on one node or on all, by name.

    Raises:
        GcushareError: the pods cannot be listed.
    """
    fields = f"spec.nodeName={node}" if node is not None else ""
    found = await api.list_all(PODS, Selector(place.plugin_namespace, fields, place.plugin_selector or ""))
    return sorted((pod for pod in found if _is_plugin(pod, place)), key=lambda pod: pod.key)


async def fetch_from_plugin(api: KubeClient, place: PluginPlace, pod: Pod, page: str) -> bytes:
    """Read one page (``metrics``, ``status``) of a plugin through the API server.

    Raises:
        GcushareError: the plugin or the API server does not answer, or the caller may not ask.
    """
    namespace, name = (quote(part, safe="") for part in (pod.metadata.namespace, pod.metadata.name))
    word = f"{'https' if place.plugin_tls else 'http'}:{name}:{place.plugin_port}"
    return await api.get_raw(f"/api/v1/namespaces/{namespace}/pods/{word}/proxy/{page}", POD_PROXY)


def _is_plugin(pod: Pod, place: PluginPlace) -> bool:
    """Whether a pod is a device plugin of this system: by the labels asked for, else by its name."""
    if pod.status.phase not in ("Running", ""):
        return False
    return place.plugin_selector is not None or any(name in pod.metadata.name for name in _PLUGIN_NAMES)
