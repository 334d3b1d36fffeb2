"""The real plugin in this process, over real sockets, between an API server double and a kubelet double."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import aiohttp

from gcushare.cluster.metrics_text import MetricsPage, parse_figures
from gcushare.core.cards import Inventory
from gcushare.core.units import GIB
from gcushare.device_plugin.adapters import HostAdapters
from gcushare.device_plugin.app import PluginApp
from gcushare.device_plugin.plugin_settings import CardSettings, KubeletSettings, PluginSettings
from gcushare.device_plugin.program import NodeProgram
from gcushare.device_plugin.reporting.metrics import PluginMetrics
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.credentials import FixedHeader
from gcushare.node.node_settings import Strategy
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import Shutdown
from gcushare.vendors import ENFLAME
from gcushare.wire.nodes import decode_inventory
from gcushare.wire.pods import MACHINE_UID, MIRROR
from gcushare_playground.apiserver.identities import ADMIN, User
from gcushare_playground.apiserver.serving import ApiServer, ApiServerConfig
from gcushare_playground.kubelet import AdmissionOrder, ContainerView, Kubelet, NodeApi
from gcushare_playground.kubelet import KubeletSettings as DoubleSettings
from gcushare_playground.kubelet.podspec import Pod
from tests.api_objects import an_object, find, owned_by

PLUGIN_USER = "plugin"
"""Tells the plugin's requests from those of the kubelet double, which patches the status of pods, too."""
NODE = "node-1"
RESOURCE = ENFLAME.memory_resource
WHOLE = ENFLAME.whole_card_resource
NOTHING: Mapping[str, Any] = {}
NO_ANNOTATIONS: Mapping[str, str] = {}


class PluginRig:
    """Started parts: ``api``, ``kubelet`` and the plugin, which ``start_plugin`` and ``stop_plugin`` bring and take.

    ``plugin`` holds settings of the plugin in addition to this rig's own, by field name; other keywords go to the
    kubelet double.
    """

    def __init__(
        self,
        *,
        cards: Sequence[int] = (16,) * 8,
        memory_unit: str = "1",
        order: AdmissionOrder | None = None,
        strategies: tuple[Strategy, ...] = (Strategy.ENV, Strategy.DEVICES),
        plugin_first: bool = True,
        plugin: Mapping[str, Any] = NOTHING,
        **double: Any,
    ) -> None:
        self.plugin_settings = dict(plugin)
        self.adapters = HostAdapters()
        self._stack = AsyncExitStack()
        self._sizes = list(cards)
        self._unit = memory_unit
        self._strategies = strategies
        self._double = {"order": order, "status_interval_s": 0.05, "termination_s": 0.0} | double
        self._plugin_first = plugin_first
        self._times = itertools.count(1)
        self._shutdown: Shutdown | None = None
        self._running: asyncio.Task[int] | None = None
        self.root = Path()
        self.api: ApiServer
        self.kubelet: Kubelet
        self.app: PluginApp
        self.program: NodeProgram

    async def __aenter__(self) -> Self:
        self.root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="plug-")))
        self.write_cards()
        self.api = await self._stack.enter_async_context(ApiServer(ApiServerConfig(runs_controllers=False)))
        self.api.kubeconfig(self.root / "kubeconfig", User(PLUGIN_USER, ADMIN.groups))
        node_api = await self._stack.enter_async_context(NodeApi(self.api.url))
        settings = DoubleSettings(node_name=NODE, root_dir=self.root, **self._double)
        self.kubelet = await self._stack.enter_async_context(Kubelet(settings, node_api))
        await self.kubelet.wait_ready()
        self._stack.push_async_callback(self.end_plugin)
        if self._plugin_first:
            await self.start_plugin()
            await self.until_units(sum(self._sizes))
            await self.until(self.is_registered, "every resource is registered and listed")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def is_registered(self) -> bool:
        """Whether the kubelet has a list of each resource: a pod that is bound earlier would be failed."""
        counts = self.kubelet.counts()
        return all(served.resource in counts for served in self.app.observed.endpoints.values())

    def settings(self) -> PluginSettings:
        settings = PluginSettings(
            cards=CardSettings(
                vendor=ENFLAME,
                cards=f"simulated:{self.root / 'cards.json'}",
                memory_unit=self._unit,
                poll_interval=0.2,
            ),
            kubelet=KubeletSettings(
                node_group="a10",
                node_name=NODE,
                kubelet_dir=self.root,
                device_list_strategy=self._strategies,
                cdi_dir=self.root / "cdi",
                wait_for_pod=0.5,
            ),
            kube=KubeSettings(kubeconfig=str(self.root / "kubeconfig")),
            serve=ServeSettings(listen_address="127.0.0.1", listen_port=0),
            log=LogSettings(log_dir=None),
        )
        return _changed(settings, self.plugin_settings)

    def write_cards(
        self, changes: Mapping[int, Mapping[str, object]] | None = None, *, gone: Sequence[int] = ()
    ) -> None:
        """Write the cards' file; ``changes`` by index, ``gone`` left out."""
        cards = [
            {"index": i, "uuid": f"GCU-{i}", "memory": size * GIB, **(changes or {}).get(i, {})}
            for i, size in enumerate(self._sizes)
            if i not in gone
        ]
        temporary = self.root / "cards.tmp"
        temporary.write_text(json.dumps({"cards": cards}))
        temporary.replace(self.root / "cards.json")

    async def start_plugin(self, *, memory_unit: str | None = None, chooses: bool = False) -> None:
        """Start the plugin; it is up when this returns, not yet registered. Resources, unless it ``chooses``."""
        self._unit = memory_unit or self._unit
        # As the kubeconfig says, which takes long to read.
        token = self.api.add_user(User(PLUGIN_USER, ADMIN.groups))
        config = KubeConfig(self.api.url, "the rig", FixedHeader(f"Bearer {token}"))
        metrics = PluginMetrics()
        client = KubeClient(config, observer=metrics.observe_request)
        self.app = PluginApp(self.settings(), client, metrics, self.adapters)
        self.program = NodeProgram(self.settings(), client, way=None if chooses else self.app)
        self.program.check_s = 0.1
        self._shutdown = Shutdown()
        self._running = asyncio.create_task(self._run(client, self._shutdown), name="plugin")

    async def _run(self, client: KubeClient, shutdown: Shutdown) -> int:
        async with client:
            return await self.program.run(shutdown)

    async def stop_plugin(self) -> None:
        """Ask the plugin to end, and wait for that and for the kubelet's noticing it.

        Else what the kubelet still counts would be taken for what the next plugin offers.
        """
        await self.end_plugin()
        await self.until(
            lambda: all(count.allocatable == 0 for count in self.kubelet.counts().values()),
            f"the kubelet noticed that the plugin is gone: {self.kubelet.counts()}",
        )

    async def end_plugin(self) -> None:
        """Ask the plugin to end and wait for it, whatever the kubelet does."""
        if self._running is not None and self._shutdown is not None:
            self._shutdown.request("test")
            running, self._running = self._running, None
            await running

    async def until(self, condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        """Wait for a condition, looking often."""
        await until(condition, what, timeout_s)

    async def until_units(self, units: int, *, allocatable: int | None = None) -> None:
        """Wait until the kubelet counts so many units."""

        def holds() -> bool:
            count = self.kubelet.counts().get(RESOURCE)
            wanted = units if allocatable is None else allocatable
            return count is not None and (count.capacity, count.allocatable) == (units, wanted)

        await self.until(holds, f"{units} units, {allocatable} allocatable: {self.kubelet.counts()}")

    def bind(
        self,
        name: str,
        *units: int,
        card: int | str | None = 0,
        init: Sequence[dict[str, Any]] = (),
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
        controller: str = "",
    ) -> None:
        """Put a bound pod into the API server, recorded on a card as the extender would.

        ``controller``: what made it, such as ``ReplicaSet web-5d8``.
        """
        record = {} if card is None else self._record(str(card), sum(units))
        containers = [container(f"c{n}", size) for n, size in enumerate(units)]
        metadata = {"annotations": record | dict(annotations), **owned_by(controller)}
        spec = {"nodeName": NODE, "containers": containers, "initContainers": list(init)}
        self.api.registry.put(an_object("Pod", name, metadata=metadata, spec=spec))

    def bind_whole(self, name: str, count: int = 1, cards: str = "") -> None:
        """Put a bound pod into the API server that asks for whole cards, recorded on ``cards`` where there are any."""
        record = {"gcushare.io/card-mode": "whole", **self._record(cards, 16 * count)} if cards else {}
        spec = {"nodeName": NODE, "containers": [container("c0", count, WHOLE)]}
        self.api.registry.put(an_object("Pod", name, metadata={"annotations": record}, spec=spec))

    def _record(self, cards: str, units: int) -> dict[str, str]:
        """What the extender writes on a pod that it binds."""
        return {
            "enflame.com/gcu-device-id": cards,
            "enflame.com/gcu-device-memory": "16",
            "enflame.com/gcu-device-memory-request": str(units),
            "enflame.com/gcu-device-assigned": "false",
            "enflame.com/gcu-device-assign-time": str(next(self._times)),
        }

    async def until_allocatable(self, resource: str, count: int) -> None:
        """Wait until the kubelet could hand out so many of a resource."""

        def holds() -> bool:
            counted = self.kubelet.counts().get(resource)
            return counted is not None and counted.allocatable == count

        await self.until(holds, f"{count} of {resource} allocatable")

    def pod(self, name: str) -> dict[str, Any]:
        return find(self.api, "Pod", name)

    def annotation(self, name: str, key: str) -> str | None:
        value: str | None = self.pod(name)["metadata"].get("annotations", {}).get(key)
        return value

    def node(self) -> dict[str, Any]:
        return find(self.api, "Node", NODE)

    def published(self) -> Inventory:
        """The inventory on the Node."""
        return decode_inventory(self.node()["metadata"]["annotations"][ENFLAME.inventory_annotation])

    def record(self, name: str) -> tuple[str | None, str | None]:
        """The card and the assigned flag of a pod's record."""
        return (
            self.annotation(name, "enflame.com/gcu-device-id"),
            self.annotation(name, "enflame.com/gcu-device-assigned"),
        )

    async def until_recorded(self, *names: str) -> None:
        """Wait until these pods are marked assigned."""
        await self.until(
            lambda: all(self.record(name)[1] == "true" for name in names),
            f"{names} marked: {[*map(self.record, names)]}",
        )

    def held_cards(self, name: str, container: str = "c0") -> set[str]:
        """First characters of the ids that the kubelet double says a container holds: its cards."""
        ids = self.kubelet.held_ids(self.pod(name)["metadata"]["uid"], container, RESOURCE)
        return {device_id[0] for device_id in ids}

    def view(self, name: str, container: str = "c0") -> ContainerView:
        """What a container was given; it must have started."""
        found = self.kubelet.container_view(self.pod(name)["metadata"]["uid"], container)
        assert found is not None, f"container {container} of {name} has not started"
        return found

    def visible(self, name: str, container: str = "c0") -> str | None:
        """The card that a container was really given."""
        view = self.kubelet.container_view(self.pod(name)["metadata"]["uid"], container)
        return view.environment.get("ENFLAME_VISIBLE_DEVICES") if view is not None else None

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a pod as ``kubectl delete`` does, with ``--force`` too, and wait until it is gone."""
        query = "?gracePeriodSeconds=0" if force else ""
        await self.request("DELETE", f"/api/v1/namespaces/default/pods/{name}{query}")
        await self.until(lambda: self.api.store.get("pods", name) is None, f"{name} is gone")

    async def finish(self, name: str) -> None:
        """End a pod's containers successfully."""
        await self.kubelet.finish(self.pod(name)["metadata"]["uid"])
        await self.until(lambda: self.pod(name)["status"]["phase"] == "Succeeded", f"{name} succeeds")

    async def annotate_node(self, key: str, value: str | None) -> None:
        """Set or remove an annotation of the Node, as an admin does."""
        await self.request("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"annotations": {key: value}}})

    async def request(self, method: str, path: str, body: object = None) -> None:
        headers = {"Content-Type": "application/merge-patch+json"} if body is not None else {}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, f"{self.api.url}{path}", data=json.dumps(body) if body else None, headers=headers
            ) as answer,
        ):
            assert answer.status == 200, await answer.text()

    async def get(self, path: str, *, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
        """What the plugin answers on its own port; ``tls`` is the client's, where it serves HTTPS."""
        server = self.program.server
        assert server is not None, "the plugin does not serve yet"
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls or True)) as session,
            session.get(f"{server.url}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def figures(self) -> MetricsPage:
        """Its metrics, read."""
        return parse_figures((await self.get("/metrics"))[1])

    async def until_figures(self, wanted: Callable[[MetricsPage], object]) -> MetricsPage:
        """The figures as soon as they are so."""
        async with asyncio.timeout(60):
            while not wanted(found := await self.figures()):  # noqa: ASYNC110 - the plugin polls its cards
                await asyncio.sleep(0.05)
        return found

    def problem(self, part: str) -> str:
        """What the plugin says is wrong with one of its parts; empty when nothing is."""
        return self.app.observed.problems().get(part, "")

    async def until_failed(self, name: str) -> str:
        """Wait until the kubelet refuses a pod; returns its message."""
        await self.until(lambda: self.pod(name)["status"].get("phase") == "Failed", f"{name} is refused")
        message: str = self.pod(name)["status"]["message"]
        return message

    def events(self, reason: str) -> list[str]:
        return [event["message"] for event in self.api.store.list("events") if event["reason"] == reason]


def backwards(pods: Sequence[Pod]) -> Sequence[Pod]:
    """An order of admission that the plugin does not expect."""
    return sorted(pods, key=lambda pod: pod.full_name, reverse=True)


async def until(condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    """Wait for a condition, looking often."""
    try:
        async with asyncio.timeout(timeout_s):
            while not condition():  # noqa: ASYNC110 - neither doubles nor files have an event for every state
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {timeout_s}s: {what}") from None


def _changed(settings: PluginSettings, changes: Mapping[str, Any]) -> PluginSettings:
    """Settings with fields of any of their groups changed; a name that no group has is an error."""
    groups = {}
    left = dict(changes)
    for field in dataclasses.fields(settings):
        group = getattr(settings, field.name)
        names = [inner.name for inner in dataclasses.fields(group) if inner.name in left]
        groups[field.name] = dataclasses.replace(group, **{name: left.pop(name) for name in names})
    assert not left, f"no such settings: {sorted(left)}"
    return PluginSettings(**groups)


def container(name: str, units: int, resource: str = RESOURCE, **extra: Any) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"limits": {resource: str(units)}}, **extra}


def false_mirror(name: str, units: int, uid: str) -> dict[str, Any]:
    """A pod whose author names the node and says that it is the mirror of a static pod; a finalizer keeps it."""
    annotations = {"kubernetes.io/config.source": "file", MACHINE_UID: uid, MIRROR: uid}
    spec = {"nodeName": NODE, "containers": [container("c0", units)]}
    return an_object("Pod", name, metadata={"annotations": annotations, "finalizers": ["a.example/b"]}, spec=spec)
