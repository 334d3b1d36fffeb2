"""Fetches the device plugins' metrics through the API server's proxy of their pods."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gcushare.cli.top.memory_use import CardKey, CardReadings, parse_metrics
from gcushare.cluster.plugin_pods import fetch_from_plugin, list_plugin_pods
from gcushare.cluster.program_pods import SeenPod
from gcushare.cluster.reading import Progress
from gcushare.cluster.settings import PluginPodSettings
from gcushare.core.errors import GcushareError, RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.vendors.vendor import Vendor

_AT_ONCE = 32
"""Plugins asked at a time: a thousand take some seconds, and the API server keeps room for others."""


@dataclass(frozen=True, slots=True)
class Scraped:
    """What the plugins told, and by plugin why one could not be asked."""

    readings: dict[CardKey, CardReadings]
    failures: dict[str, GcushareError]
    plugins: int


async def scrape_plugins(
    api: KubeClient, vendor: Vendor, place: PluginPodSettings, nodes: frozenset[str], progress: Progress
) -> Scraped:
    """Ask the plugins of these nodes.

    Raises:
        GcushareError: the plugins' pods cannot be listed.
    """
    plugins = [pod for pod in await list_plugin_pods(api, place) if pod.spec.node_name in nodes]
    gate = asyncio.Semaphore(_AT_ONCE)
    scraped = Scraped({}, {}, len(plugins))

    async def scrape(pod: SeenPod) -> None:
        try:
            async with gate:
                scraped.readings.update(await _scrape_one(api, vendor, place, pod))
        except GcushareError as error:
            scraped.failures[f"{pod.key} on {pod.spec.node_name}"] = error
        progress("plugins", len(scraped.failures) + len({node for node, _ in scraped.readings}))

    async with asyncio.TaskGroup() as group:
        for pod in plugins:
            group.create_task(scrape(pod), name=f"metrics of {pod.key}")
    return scraped


async def _scrape_one(
    api: KubeClient, vendor: Vendor, place: PluginPodSettings, pod: SeenPod
) -> dict[CardKey, CardReadings]:
    body = await fetch_from_plugin(api, place, pod, "metrics")
    try:
        return parse_metrics(body.decode(), vendor.name)
    except UnicodeDecodeError as error:
        raise RemoteContractError(f"the metrics are no text: {error}") from error
