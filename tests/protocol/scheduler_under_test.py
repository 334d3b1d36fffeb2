"""One cluster for the tests of how kube-scheduler behaves: a scheduler, the double or a real one, and an extender."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, Self

import msgspec

from gcushare.core.assignments import PodRef
from gcushare.kube.client import KubeClient
from gcushare.kube.errors import AlreadyExistsError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, PODS, Resource
from gcushare_playground.picture import NODE_OBJECTS, condition_of, node_of
from tests.protocol.followed import Followed
from tests.protocol.scripted_extender import Asked, ScriptedExtender

RESOURCE = "example.com/memory"
JsonObject = dict[str, Any]
_PRIORITIES: Resource[JsonObject] = Resource("apis/scheduling.k8s.io/v1", "priorityclasses", dict, namespaced=False)
_CLASSES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "deviceclasses", dict, namespaced=False)
_CLAIMS: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaims", dict)


class SchedulerBackend(Protocol):
    """What the double and the real scheduler need different hands for."""

    client: KubeClient
    pace: float
    """What its backoff begins with, in seconds; it ends at twice that."""

    async def start(self, configuration: str) -> None:
        """Start one with a KubeSchedulerConfiguration."""

    async def stop(self) -> None:
        """End it, if one runs."""


class SchedulerUnderTest(Followed):
    """Leaving the block ends the scheduler and deletes the pods and nodes."""

    def __init__(self, backend: SchedulerBackend) -> None:
        super().__init__(backend.client)
        self.backend = backend
        self.extender = ScriptedExtender()
        self.extender.answers["bind"] = self.bind

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self.extender.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.backend.stop()
            await self.extender.stop()
            for pod in list(self.pods.objects.values()):
                await self.client.delete(PODS, pod["metadata"]["name"], namespace="default", grace_s=0)
            for node in list(self.nodes.objects):
                await self.client.delete(NODES, node)
        finally:
            await super().__aexit__()

    async def start(self, **changes: Any) -> None:
        """Start the scheduler with one extender of every verb; ``changes`` are keys of its entry."""
        entry = {
            "urlPrefix": self.extender.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "bindVerb": "bind",
            "weight": 1,
            "nodeCacheCapable": True,
            "managedResources": [{"name": RESOURCE}],
            **changes,
        }
        written = msgspec.json.encode([{key: value for key, value in entry.items() if value is not None}]).decode()
        await self.backend.start(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"leaderElection: {{leaderElect: false}}\nextenders: {written}\n"
        )

    async def bind(self, arguments: JsonObject) -> Any:
        """What an extender does on bind: one Binding; the answer carries no error."""
        pod = PodRef(arguments["PodUID"], arguments["PodNamespace"], arguments["PodName"])
        await self.client.bind_pod(pod, arguments["Node"], {})
        return {"Error": ""}

    async def add_node(self, name: str, *, units: int = 16, **spec: Any) -> None:
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", RESOURCE: str(units)}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
        await self.client.create(NODE_OBJECTS, {"metadata": {"name": name}, "spec": spec, "status": status})

    async def add_pod(self, name: str, units: int = 4, **spec: Any) -> str:
        """Create a pod and return its uid."""
        limits = {RESOURCE: str(units)} if units else {}
        container = {"name": "main", "image": "image:1", "resources": {"limits": limits}}
        whole = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
        made = await self.client.create(PODS, {"metadata": {"name": name}, "spec": whole}, namespace="default")
        return made.metadata.uid

    async def place_pod(self, name: str, units: int = 4, **spec: Any) -> str:
        """Create a pod, wait until it has its node and return the node."""
        await self.add_pod(name, units, **spec)
        return await self.until_bound(name)

    async def make_claim(self, name: str) -> None:
        """Make a claim for a device that no node has."""
        with suppress(AlreadyExistsError):
            chosen = {"selectors": [{"cel": {"expression": "device.driver == 'cards.example.com'"}}]}
            await self.client.create(_CLASSES, {"metadata": {"name": "cards"}, "spec": chosen})
        request = {"name": "card", "exactly": {"deviceClassName": "cards"}}
        claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        await self.client.create(_CLAIMS, claim, namespace="default")

    async def make_important(self) -> None:
        """Make the priority class ``important``."""
        with suppress(AlreadyExistsError):
            await self.client.create(_PRIORITIES, {"metadata": {"name": "important"}, "value": 1000})

    async def change(
        self,
        resource: Resource[Any],
        name: str,
        change: JsonObject,
        *,
        subresource: str = "",
        kind: PatchKind = PatchKind.STRATEGIC,
    ) -> None:
        """Change a pod or a node."""
        namespace = "default" if resource.namespaced else ""
        await self.client.patch(resource, name, Patch(kind, change), namespace=namespace, subresource=subresource)

    async def delete_pod(self, name: str) -> None:
        await self.client.delete(PODS, name, namespace="default", grace_s=0)

    async def until_bound(self, name: str) -> str:
        """Wait until a pod has its node and return it."""
        await self._until(name, lambda: bool(node_of(self._pod(name))), "bound")
        return node_of(self._pod(name))

    async def _until(self, name: str, holds: Callable[[], bool], what: str) -> None:
        await self.pods.until(holds, f"{name} is {what}", deadline_s=60.0, shown=lambda: self.message(name))

    async def until_said(self, name: str, text: str) -> Mapping[str, Any]:
        """Wait until a pod's PodScheduled condition begins like this; returns the condition."""
        await self._until(name, lambda: self.message(name).startswith(text), f"shown {text!r}")
        return condition_of(self._pod(name), "PodScheduled")

    async def until_event(self, name: str, reason: str, message: str, kind: str) -> None:
        """Wait for an event about a pod."""

        def found() -> list[tuple[Any, ...]]:
            keys = ("reason", "message", "type")
            return [
                tuple(each.get(key) for key in keys)
                for each in self.events.objects.values()
                if each["involvedObject"]["name"] == name
            ]

        expected = (reason, message, kind)
        await self.events.until(
            lambda: expected in found(), f"{name} has the event {expected}", deadline_s=60.0, shown=lambda: str(found())
        )

    async def asked(self, verb: str, pod: str = "", count: int = 1) -> list[Asked]:
        """Wait until the extender was asked this often."""
        return await self.extender.wait_for(verb, pod, count)

    def message(self, name: str) -> str:
        return str(condition_of(self._pod(name), "PodScheduled").get("message", ""))

    def _pod(self, name: str) -> JsonObject:
        return self.pods.objects.get(f"default/{name}", {"spec": {}})
