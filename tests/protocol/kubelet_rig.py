"""One kubelet double, an API server double and a reference plugin, on a short temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.kubelet import Kubelet, KubeletSettings, NodeApi, by_creation
from tests.manual_clock import ManualClock
from tests.protocol.reference_plugin import ReferencePlugin, devices

RESOURCE = "enflame.com/gcu-memory"
NODE = "node-1"


def unit_ids(count: int) -> list[str]:
    return [f"{number:03x}" for number in range(count)]


def container(name: str, units: int | None, **extra: Any) -> dict[str, Any]:
    limits = {} if units is None else {RESOURCE: str(units)}
    return {"name": name, "image": f"{name}:1", "resources": {"limits": limits}, **extra}


def pod(
    name: str,
    *containers: dict[str, Any],
    init: Iterable[dict[str, Any]] = (),
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"initContainers": list(init), "containers": list(containers)},
    }


class Cluster:
    """What a cluster does to the pods of the node, on an API server double that the kubelet speaks to over HTTP."""

    def __init__(self) -> None:
        self.server = ApiServer(ApiServerConfig(runs_controllers=False))

    def pod(self, name: str) -> JsonObject:
        found = self.server.store.get("pods", name)
        assert found is not None, name
        return found

    def node(self) -> JsonObject:
        return self.server.store.get("nodes", NODE, "") or {}

    def events(self) -> list[JsonObject]:
        return self.server.store.list("events")

    def lease(self) -> str:
        """When the node's lease was renewed last; empty before."""
        found = self.server.store.get("leases.coordination.k8s.io", NODE, "kube-node-lease")
        return found["spec"]["renewTime"] if found else ""

    async def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds, looking again whenever an object changes."""
        try:
            await self.server.store.until(holds, timeout_s=60.0)
        except TimeoutError as error:
            raise TimeoutError(f"not within 60 s: {what}") from error

    async def wait_for_pod(self, name: str, phase: str | None) -> JsonObject:
        """Wait until the pod is in the phase, or gone where ``phase`` is None, and return it as it is then."""

        def is_there() -> bool:
            found = self.server.store.get("pods", name)
            return (found is None) if phase is None else bool(found and found["status"].get("phase") == phase)

        await self.wait_until(is_there, f"pod {name} in phase {phase!r}")
        return self.server.store.get("pods", name) or {}


class Rig:
    """Started parts: ``api``, ``kubelet`` and, registered with its ids, ``plugin``."""

    def __init__(self, *, units: int = 16, register: bool = True, **settings: Any) -> None:
        self.api = Cluster()
        self.clock = ManualClock()
        self.units = units
        self._register = register
        self._settings = settings
        self._stack = AsyncExitStack()
        self.root = Path()
        self.kubelet: Kubelet
        self.plugin: ReferencePlugin

    async def __aenter__(self) -> Self:
        self.root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kubelet-")))
        defaults: dict[str, Any] = {
            "order": by_creation,
            "batch_window_s": 0.0,
            "termination_s": 0.0,
            "status_interval_s": 0.02,
            "start_retry_s": 0.01,
        }
        settings = KubeletSettings(node_name=NODE, root_dir=self.root, **(defaults | self._settings))
        await self._stack.enter_async_context(self.api.server)
        node_api = await self._stack.enter_async_context(NodeApi(self.api.server.url))
        self.kubelet = await self._stack.enter_async_context(Kubelet(settings, node_api, clock=self.clock))
        self.kubelet.faults.podresources_delay_s = (0.0, 0.0)
        self.plugin = ReferencePlugin(self.plugin_dir, RESOURCE, devices(unit_ids(self.units)))
        await self._stack.enter_async_context(self.plugin)
        await self.kubelet.wait_ready()
        if self._register:
            await self.register()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def plugin_dir(self) -> Path:
        return self.root / "device-plugins"

    async def register(self) -> None:
        """Register the plugin and wait until the Node shows its units."""
        await self.plugin.register()
        await self.wait_for_units(self.units, self.units)

    def node_resources(self, part: str) -> dict[str, str]:
        resources: dict[str, str] = self.api.node().get("status", {}).get(part, {})
        return resources

    async def wait_for_units(self, capacity: int, allocatable: int, *, resource: str = RESOURCE) -> None:
        """Wait until the Node carries these two counts."""

        def holds() -> bool:
            return (
                self.node_resources("capacity").get(resource),
                self.node_resources("allocatable").get(resource),
            ) == (
                str(capacity),
                str(allocatable),
            )

        await self.api.wait_until(holds, f"{resource} is {capacity}/{allocatable} on the node")

    async def bind(self, spec: dict[str, Any]) -> str:
        """Bind a pod to the node and return its uid."""
        bound = {**spec, "spec": {**spec["spec"], "nodeName": NODE}}
        created = self.api.server.registry.put(bound)
        uid: str = created["metadata"]["uid"]
        return uid

    async def run(self, spec: dict[str, Any]) -> str:
        """Bind a pod, wait until it runs and return its uid."""
        uid = await self.bind(spec)
        await self.api.wait_for_pod(spec["metadata"]["name"], "Running")
        return uid

    async def fail(self, spec: dict[str, Any]) -> tuple[str, str]:
        """Bind a pod, wait until it failed and return reason and message of its status."""
        await self.bind(spec)
        failed = await self.api.wait_for_pod(spec["metadata"]["name"], "Failed")
        return failed["status"]["reason"], failed["status"]["message"]

    def ids(self, uid: str, name: str = "main") -> frozenset[str]:
        return self.kubelet.held_ids(uid, name, RESOURCE)
