"""The three doubles of a cluster, in this process (for tests that look into them) or as processes (for people)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Protocol

from gcushare.kube.connection.config import KubeConfig
from gcushare_playground.apiserver import ApiServer
from gcushare_playground.commands import api_server_command, kubelet_command, scheduler_command
from gcushare_playground.kubelet import Kubelet, KubeletSettings, NodeApi
from gcushare_playground.plans import ClusterPlan, NodePlan, Place
from gcushare_playground.processes import Child, stop_all
from gcushare_playground.scheduler import SchedulerDouble, load_scheduler_settings


class Doubles(Protocol):
    """Starts the doubles of one cluster, in the order in which they need each other, and ends them."""

    async def start_api_server(self, place: Place) -> str:
        """Return its URL."""
        ...

    async def start_kubelet(self, plan: ClusterPlan, place: Place, node: NodePlan, api_url: str) -> None:
        """Return once plugins can register."""
        ...

    async def start_scheduler(self, plan: ClusterPlan, place: Place, api_url: str) -> None:
        """Return once it runs."""
        ...

    async def stop(self) -> None:
        """End every double; repeatable."""
        ...

    def children(self) -> Sequence[Child]:
        """Those that are processes."""
        ...


class InsideDoubles:
    """The doubles as objects of this process."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self.kubelets: dict[str, Kubelet] = {}
        self.api: ApiServer
        self.scheduler: SchedulerDouble

    async def start_api_server(self, place: Place) -> str:
        self.api = await self._stack.enter_async_context(ApiServer())
        return self.api.url

    async def start_kubelet(self, plan: ClusterPlan, place: Place, node: NodePlan, api_url: str) -> None:
        settings = KubeletSettings(
            node_name=node.name,
            root_dir=place.kubelet_dir(node),
            status_interval_s=plan.status_interval_s,
            machine=plan.machine,
            labels=plan.label() if plan.labels_nodes else {},
        )
        api = await self._stack.enter_async_context(NodeApi(api_url))
        self.kubelets[node.name] = await self._stack.enter_async_context(Kubelet(settings, api))

    async def start_scheduler(self, plan: ClusterPlan, place: Place, api_url: str) -> None:
        settings = load_scheduler_settings(place.scheduler_config)
        settings = settings.with_waits(plan.wait_factor, plan.unschedulable_s)
        double = SchedulerDouble(settings, KubeConfig(server=api_url, source="the playground"))
        self.scheduler = await self._stack.enter_async_context(double)

    async def stop(self) -> None:
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    def children(self) -> Sequence[Child]:
        return ()


class ProcessDoubles:
    """The doubles as processes, each with its own log."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    async def start_api_server(self, place: Place) -> str:
        return await self._start(Child(api_server_command(place)))

    async def start_kubelet(self, plan: ClusterPlan, place: Place, node: NodePlan, api_url: str) -> None:
        await self._start(Child(kubelet_command(plan, place, node, api_url)))

    async def start_scheduler(self, plan: ClusterPlan, place: Place, api_url: str) -> None:
        await self._start(Child(scheduler_command(plan, place, api_url)))

    async def stop(self) -> None:
        # Clients before their server, so that no one logs a server that went away.
        children, self._children = self._children, []
        await stop_all(children[1:])
        await stop_all(children[:1])

    def children(self) -> Sequence[Child]:
        return tuple(self._children)

    async def _start(self, child: Child) -> str:
        self._children.append(child)
        return await child.start()
