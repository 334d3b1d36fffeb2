"""The three doubles of a cluster, in this process: started in the order in which they need each other."""

from __future__ import annotations

from contextlib import AsyncExitStack

from gcushare.kube.connection.config import KubeConfig
from gcushare_playground.apiserver import ApiServer
from gcushare_playground.kubelet import Kubelet, KubeletSettings, NodeApi
from gcushare_playground.plans import ClusterPlan, NodePlan, Place
from gcushare_playground.scheduler import SchedulerDouble, load_scheduler_settings


class Doubles:
    """Those of one cluster; what is not started yet is not set."""

    def __init__(self, plan: ClusterPlan) -> None:
        self._plan = plan
        self._stack = AsyncExitStack()
        self.kubelets: dict[str, Kubelet] = {}
        self.api: ApiServer
        self.scheduler: SchedulerDouble

    async def start_api_server(self) -> str:
        """Return its URL."""
        self.api = await self._stack.enter_async_context(ApiServer())
        return self.api.url

    async def start_kubelet(self, place: Place, node: NodePlan) -> None:
        """Return once plugins can register."""
        settings = KubeletSettings(
            node_name=node.name,
            root_dir=place.kubelet_dir(node),
            status_interval_s=self._plan.status_interval_s,
            machine=self._plan.machine,
            labels=self._plan.label() if self._plan.labels_nodes else {},
        )
        api = await self._stack.enter_async_context(NodeApi(self.api.url))
        self.kubelets[node.name] = await self._stack.enter_async_context(Kubelet(settings, api))

    async def start_scheduler(self, place: Place) -> None:
        """Start it with the configuration that stands in its file."""
        settings = load_scheduler_settings(place.scheduler_config)
        settings = settings.with_waits(self._plan.wait_factor, self._plan.unschedulable_s)
        double = SchedulerDouble(settings, KubeConfig(server=self.api.url, source="the playground"))
        self.scheduler = await self._stack.enter_async_context(double)

    async def stop(self) -> None:
        """End every double, the last one first; repeatable."""
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()
