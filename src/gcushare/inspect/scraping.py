"""Fetches the device plugins' metrics through the API server's proxy of their pods."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import quote

from gcushare.core.errors import GcushareError, RemoteContractError
from gcushare.inspect.options import TopSettings
from gcushare.inspect.reading import Progress
from gcushare.inspect.use import CardKey, CardReadings, parse_metrics
from gcushare.kube import PODS, KubeClient, Selector
from gcushare.vendors.vendor import Vendor
from gcushare.wire.objects import Pod

_AT_ONCE = 32
"""Plugins asked at a time: a thousand take some seconds, and the API server keeps room for others."""

_PLUGIN_NAMES = ("gcushare-device-plugin", "gpushare-device-plugin")


@dataclass(frozen=True, slots=True)
class Scraped:
    """What the plugins told, and by plugin why one could not be asked."""

    readings: dict[CardKey, CardReadings]
    failures: dict[str, GcushareError]
    plugins: int


async def scrape_plugins(
    api: KubeClient, vendor: Vendor, settings: TopSettings, nodes: frozenset[str], progress: Progress
) -> Scraped:
    """Ask the plugins of these nodes.

    Raises:
        GcushareError: the plugins' pods cannot be listed.
    """
    found = await api.list_all(PODS, Selector(settings.plugin_namespace, labels=settings.plugin_selector or ""))
    plugins = [pod for pod in found if pod.spec.node_name in nodes and _is_plugin(pod, settings)]
    gate = asyncio.Semaphore(_AT_ONCE)
    scraped = Scraped({}, {}, len(plugins))

    async def scrape(pod: Pod) -> None:
        try:
            async with gate:
                scraped.readings.update(await _scrape_one(api, vendor, settings, pod))
        except GcushareError as error:
            scraped.failures[f"{pod.key} on {pod.spec.node_name}"] = error
        progress("plugins", len(scraped.failures) + len({node for node, _ in scraped.readings}))

    async with asyncio.TaskGroup() as group:
        for pod in plugins:
            group.create_task(scrape(pod), name=f"metrics of {pod.key}")
    return scraped


async def _scrape_one(api: KubeClient, vendor: Vendor, settings: TopSettings, pod: Pod) -> dict[CardKey, CardReadings]:
    namespace, name = (quote(part, safe="") for part in (pod.metadata.namespace, pod.metadata.name))
    path = f"/api/v1/namespaces/{namespace}/pods/http:{name}:{settings.plugin_port}/proxy/metrics"
    body = await api.get_raw(path, "pods/proxy")
    try:
        return parse_metrics(body.decode(), vendor.name)
    except UnicodeDecodeError as error:
        raise RemoteContractError(f"the metrics are no text: {error}") from error


def _is_plugin(pod: Pod, settings: TopSettings) -> bool:
    """Whether a pod is a device plugin of this system: by the labels asked for, else by its name."""
    if pod.status.phase not in ("Running", ""):
        return False
    return settings.plugin_selector is not None or any(name in pod.metadata.name for name in _PLUGIN_NAMES)
