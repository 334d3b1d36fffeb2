"""Remove our fields from every Node, and wait, where asked to, until the kubelets have forgotten the resource."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gcushare.cli.uninstall.leftovers import Cleanup, find_leftovers, is_remembered, whole_resources
from gcushare.cluster.connection import open_cluster
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.resources import NODES
from gcushare.runtime.entry import Surroundings
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings.groups import KubeSettings
from gcushare.wire.objects import Node

POLL_S = 5.0
"""Half of a kubelet's status interval."""


class Cleaner:
    """Cleans all Nodes of a cluster; running it again does what is left to do."""

    def __init__(self, client: KubeClient, cleanup: Cleanup, clock: Clock, say: Callable[[str], None]) -> None:
        self._client = client
        self._cleanup = cleanup
        self._clock = clock
        self._say = say
        self._remembering: set[str] = set()
        self._whole: dict[str, frozenset[str]] = {}
        """Whole-card resources that are ours, by node: what says so, the inventory, is taken away first."""

    async def run(self) -> frozenset[str]:
        """Clean until no kubelet brings anything back or the time is over; return the Nodes where one still may.

        Raises:
            GcushareError: the API server refused or did not answer.
        """
        deadline = self._clock.monotonic() + self._cleanup.wait_s
        while True:
            for node in await self._client.list_all(NODES):
                await self._clean(node)
            if not self._remembering or self._clock.monotonic() >= deadline:
                return frozenset(self._remembering)
            await self._clock.sleep(POLL_S)

    async def _clean(self, node: Node) -> None:
        name = node.metadata.name
        vendors = self._cleanup.vendors
        whole = self._whole[name] = self._whole.get(name, frozenset()) | whole_resources(node, vendors)
        remembered = is_remembered(node, vendors, whole)
        if remembered and name in self._remembering:
            return  # taken away once already: the kubelet wrote it back, and would again
        if remembered is not None:
            (self._remembering.add if remembered else self._remembering.discard)(name)
        left = find_leftovers(node, vendors, with_labels=self._cleanup.with_labels, whole=whole)
        # The inventory goes last: it says which resources are ours to whoever is started again after an end in between.
        if left.status_patch is not None:
            await self._client.patch(NODES, name, left.status_patch, subresource="status")
        if left.metadata_patch is not None:
            await self._client.patch(NODES, name, left.metadata_patch)
        removed = (*left.annotations, *left.labels, *left.resources)
        if removed:
            self._say(f"node/{name} cleaned: {', '.join(removed)}")


def run(cleanup: Cleanup, kube: KubeSettings, around: Surroundings) -> int:
    """Clean every Node of the cluster of the settings; returns the exit code."""

    def say(line: str) -> None:
        around.stdout.write(line + "\n")
        around.stdout.flush()

    async def clean() -> frozenset[str]:
        async with open_cluster(kube, around.environ, program="gcushare-uninstall") as client:
            return await Cleaner(client, cleanup, SystemClock(), say).run()

    for name in sorted(asyncio.run(clean())):
        say(f"node/{name}: its kubelet shows the memory, unavailable, until 5 minutes after the plugin's end")
    return DONE
