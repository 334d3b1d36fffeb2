"""A scheduler double between an API server double and a scripted extender."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from gcushare.core.assignments import PodRef
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.picture import EVENT_OBJECTS, NODE_OBJECTS, POD_OBJECTS, Picture, condition_of, node_of
from gcushare_playground.scheduler import (
    ExtenderSettings,
    ManagedResource,
    Pacing,
    SchedulerDouble,
    SchedulerSettings,
)
from tests.protocol.scripted_extender import ScriptedExtender

RESOURCE = "enflame.com/gcu-memory"
SHORT = Pacing(initial_backoff_s=0.02, max_backoff_s=0.1)


class SchedulerRig:
    """Started parts: ``api``, ``extender``, ``scheduler``; ``pods`` and ``events`` show what the API server holds."""

    def __init__(self, *, settings: SchedulerSettings | None = None, **extender: Any) -> None:
        self.extender = ScriptedExtender()
        self._settings = settings or SchedulerSettings(pacing=SHORT)
        self._extender_changes = extender
        self._stack = AsyncExitStack()
        self._followers: list[asyncio.Task[None]] = []
        self.api: ApiServer
        self.client: KubeClient
        self.scheduler: SchedulerDouble
        self.pods: Picture
        self.events: Picture

    async def __aenter__(self) -> Self:
        enter = self._stack.enter_async_context
        self.api = await enter(ApiServer(ApiServerConfig(runs_controllers=False)))
        await enter(self.extender)
        config = KubeConfig(server=self.api.url, source="the playground")
        self.client = await enter(KubeClient(config))
        self.pods, self.events = Picture(self.client, POD_OBJECTS), Picture(self.client, EVENT_OBJECTS)
        self._followers = [asyncio.create_task(each.run()) for each in (self.pods, self.events)]
        self.extender.answers["bind"] = self.bind
        entry = ExtenderSettings(
            **{
                "url_prefix": self.extender.url,
                "filter_verb": "filter",
                "prioritize_verb": "prioritize",
                "bind_verb": "bind",
                "node_cache_capable": True,
                "managed_resources": (ManagedResource(name=RESOURCE),),
                **self._extender_changes,
            }
        )
        settings = SchedulerSettings(
            names=self._settings.names,
            extenders=(entry,),
            pacing=self._settings.pacing,
        )
        self.scheduler = await enter(SchedulerDouble(settings, config))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for follower in self._followers:
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)
        await self._stack.aclose()

    async def bind(self, arguments: dict[str, Any]) -> Any:
        """What an extender does on bind: one Binding; the answer carries no error."""
        pod = PodRef(arguments["PodUID"], arguments["PodNamespace"], arguments["PodName"])
        await self.client.bind_pod(pod, arguments["Node"], {})
        return {"Error": ""}

    async def add_node(self, name: str, *, units: int = 128, **spec: Any) -> None:
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", RESOURCE: str(units)}
        labels = spec.pop("labels", {})
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        await self.client.create(NODE_OBJECTS, body)

    async def add_pod(self, name: str, units: int | None = 4, **spec: Any) -> str:
        """Create a pod and return its key."""
        limits = {} if units is None else {RESOURCE: units}
        container = {"name": "main", "image": "main:1", "resources": {"limits": limits}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec},
        }
        await self.client.create(POD_OBJECTS, body, namespace="default")
        return f"default/{name}"

    async def wait_bound(self, key: str) -> str:
        """Wait until a pod has its node and return it."""
        await self.pods.until(
            lambda: bool(node_of(self.pods.objects.get(key, {"spec": {}}))),
            f"{key} is bound",
            deadline_s=60.0,
            shown=lambda: self.message(key),
        )
        return node_of(self.pods.objects[key])

    async def wait_message(self, key: str, message: str) -> Mapping[str, Any]:
        """Wait until a pod's PodScheduled condition says this and return the condition."""
        await self.pods.until(
            lambda: self.message(key) == message,
            f"{key} is shown {message!r}",
            deadline_s=60.0,
            shown=lambda: self.message(key),
        )
        return condition_of(self.pods.objects[key], "PodScheduled")

    def message(self, key: str) -> str:
        return str(condition_of(self.pods.objects.get(key, {}), "PodScheduled").get("message", ""))
