"""The Node object: registered once, then kept true — resources, conditions, addresses — and the node's Lease."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping

from gcushare.core.errors import ConflictError, GcushareError
from gcushare_playground.amounts import JsonObject
from gcushare_playground.kubelet.api import NodeApi
from gcushare_playground.kubelet.books import ResourceCount
from gcushare_playground.kubelet.clocks import now_micro_text, now_text
from gcushare_playground.kubelet.retrying import delay_s
from gcushare_playground.kubelet.settings import KubeletSettings
from gcushare_playground.kubelet.statuses import node_conditions, resource_status

logger = logging.getLogger(__name__)

_LEASE_DURATION_S = 40
_HEARTBEAT_S = 10.0
"""The stock kubelet's: conditions and Lease are renewed so often when nothing changes."""


class NodePublisher:
    """Owns the kubelet's part of its Node; ``changed`` has it look at once instead of at the next turn."""

    def __init__(
        self,
        api: NodeApi,
        settings: KubeletSettings,
        *,
        collect_counts: Callable[[], Mapping[str, ResourceCount]],
        changed: asyncio.Event,
        clock: Callable[[], float],
    ) -> None:
        self.allocatable: dict[str, str] = dict(settings.machine)
        """The Node's, as of the last look."""
        self.registered = asyncio.Event()
        self.log_port = 0
        self._api = api
        self._settings = settings
        self._collect_counts = collect_counts
        self._clock = clock
        self._changed = changed
        self._next_heartbeat = 0.0

    async def run(self) -> None:
        """Register, then keep the Node true, until cancelled."""
        attempt = 0
        while True:
            try:
                if not self.registered.is_set():
                    await self._register()
                await self.sync()
                attempt = 0
            except GcushareError as error:
                logger.warning("node not updated node=%s reason=%s", self._settings.node_name, error)
                await asyncio.sleep(delay_s(attempt))
                attempt += 1
                continue
            await self._pause()

    async def sync(self) -> None:
        """Read the Node and write what is not true in it.

        Raises:
            NotFoundError: the Node is gone; a stock kubelet does not create it again before its next start.
            GcushareError: the server is away or refuses.
        """
        self._changed.clear()
        node = await self._api.get_node(self._settings.node_name)
        status: JsonObject = dict(resource_status(node, self._settings.machine, self._collect_counts()))
        is_heartbeat = self._clock() >= self._next_heartbeat
        if is_heartbeat:
            status["conditions"] = node_conditions(node, now=now_text())
        published = node.get("status", {})
        status |= {key: value for key, value in self._identity().items() if published.get(key) != value}
        if status:
            node = await self._api.patch_node_status(self._settings.node_name, {"status": status})
        self.allocatable = dict(node["status"]["allocatable"])
        if is_heartbeat:
            await self._api.renew_lease(self._settings.node_name, now_micro_text(), _LEASE_DURATION_S)
            self._next_heartbeat = self._clock() + _HEARTBEAT_S

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._settings.status_interval_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _register(self) -> None:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._settings.node_name, "labels": self._labels()},
            "spec": {},
            "status": {
                **self._identity(),
                "capacity": dict(self._settings.machine),
                "allocatable": dict(self._settings.machine),
                "conditions": node_conditions({}, now=now_text()),
            },
        }
        try:
            await self._api.create_node(node)
            logger.info("node created node=%s", self._settings.node_name)
        except ConflictError:
            logger.info("node taken over node=%s", self._settings.node_name)
        self.registered.set()

    def _labels(self) -> dict[str, str]:
        return {
            "kubernetes.io/hostname": self._settings.node_name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self._settings.labels,
        }

    def _identity(self) -> JsonObject:
        name = self._settings.node_name
        machine_id = uuid.uuid5(uuid.NAMESPACE_DNS, name).hex
        return {
            "addresses": [
                {"type": "InternalIP", "address": self._settings.host_ip},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.log_port}},
            "nodeInfo": {
                **dict.fromkeys(("machineID", "systemUUID", "bootID"), machine_id),
                "kernelVersion": "6.8.0",
                "osImage": "gcushare playground",
                "containerRuntimeVersion": "playground://1.0",
                "kubeletVersion": self._settings.version,
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        }
