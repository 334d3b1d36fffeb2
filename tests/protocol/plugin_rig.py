"""The real plugin in this process, over real sockets, between an API server double and a kubelet double."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from gcushare.device_plugin.app import PluginApp
from gcushare.device_plugin.reporting.resources import PluginMetrics
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.credentials import FixedHeader
from gcushare.node.node_settings import Strategy
from gcushare.vendors import ENFLAME
from gcushare.wire.pods import MACHINE_UID, MIRROR
from gcushare_playground.apiserver.identities import ADMIN, User
from gcushare_playground.apiserver.serving import ApiServer, ApiServerConfig
from gcushare_playground.kubelet import AdmissionOrder, ContainerView, Kubelet, NodeApi
from gcushare_playground.kubelet import KubeletSettings as DoubleSettings
from gcushare_playground.kubelet.podspec import Pod
from tests.api_objects import an_object, delete, owned_by
from tests.protocol.node_rig import NODE, NOTHING, NodeRig

PLUGIN_USER = "plugin"
"""Tells the plugin's requests from those of the kubelet double, which patches the status of pods, too."""
RESOURCE = ENFLAME.memory_resource
WHOLE = ENFLAME.whole_card_resource


class PluginRig(NodeRig):
    """Started parts: ``api``, ``kubelet`` and the plugin, which ``start_plugin`` and ``stop_plugin`` bring and take.

    ``plugin`` holds settings of the plugin in addition to this rig's own, by field name; other keywords go to the
    kubelet double.
    """

    app: PluginApp

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
        own = {"memory_unit": memory_unit, "device_list_strategy": strategies, "wait_for_pod": 0.5, "node_group": "a10"}
        super().__init__(cards, {**own, **plugin})
        self._double = {"order": order, "status_interval_s": 0.05, "termination_s": 0.0} | double
        self._plugin_first = plugin_first
        self._times = itertools.count(1)
        self.kubelet: Kubelet

    async def __aenter__(self) -> Self:
        self.root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="plug-")))
        self.write_cards()
        self.api = await self._stack.enter_async_context(ApiServer(ApiServerConfig(runs_controllers=False)))
        self.api.kubeconfig(self.root / "kubeconfig", User(PLUGIN_USER, ADMIN.groups))
        node_api = await self._stack.enter_async_context(NodeApi(self.api.url))
        settings = DoubleSettings(node_name=NODE, root_dir=self.root, **self._double)
        self.kubelet = await self._stack.enter_async_context(Kubelet(settings, node_api))
        await self.kubelet.wait_ready()
        self._stack.push_async_callback(self.end_program)
        if self._plugin_first:
            await self.start()
        return self

    async def start(self, allocatable: int | None = None) -> None:
        """Start the plugin, and wait until pods can be given so many units."""
        await self.start_plugin()
        await self.until_units(sum(self._sizes), allocatable=allocatable)
        await self.until(self.is_registered, "every resource is registered and listed")

    def is_registered(self) -> bool:
        """Whether the kubelet has a list of each resource: a pod that is bound earlier would be failed."""
        counts = self.kubelet.counts()
        return all(served.resource in counts for served in self.app.observed.endpoints.values())

    async def start_plugin(self, *, chooses: bool = False) -> None:
        """Start the plugin; it is up when this returns, not yet registered. Resources, unless it ``chooses``."""
        # As the kubeconfig says, which takes long to read.
        token = self.api.add_user(User(PLUGIN_USER, ADMIN.groups))
        config = KubeConfig(self.api.url, "the rig", FixedHeader(f"Bearer {token}"))
        metrics = PluginMetrics()
        client = KubeClient(config, observer=metrics.observe_request)
        self.app = PluginApp(self.settings(), client, metrics, self.adapters)
        self.run_program(client, None if chooses else self.app)

    async def stop_plugin(self) -> None:
        """Ask the plugin to end, and wait for that and for the kubelet's noticing it.

        Else what the kubelet still counts would be taken for what the next plugin offers.
        """
        await self.end_program()
        await self.until(
            lambda: all(count.allocatable == 0 for count in self.kubelet.counts().values()),
            f"the kubelet noticed that the plugin is gone: {self.kubelet.counts()}",
        )

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
        annotations: Mapping[str, str] = NOTHING,
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

    async def run(self, name: str, *units: int, **options: Any) -> None:
        """Put a bound pod into the API server, and wait until the plugin has marked it assigned."""
        self.bind(name, *units, **options)
        await self.until_recorded(name)

    async def run_whole(self, name: str, count: int = 1, cards: str = "") -> None:
        """The same of one that asks for whole cards."""
        self.bind_whole(name, count, cards)
        await self.until_recorded(name)

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

    def record(self, name: str) -> tuple[str | None, str | None]:
        """The card and the assigned flag of a pod's record."""
        card, flag = (self.annotation(name, f"enflame.com/gcu-device-{key}") for key in ("id", "assigned"))
        return card, flag

    async def until_recorded(self, *names: str) -> None:
        """Wait until these pods are marked assigned."""
        await self.until(
            lambda: all(self.record(name)[1] == "true" for name in names),
            f"{names} marked: {[*map(self.record, names)]}",
        )

    def held_cards(self, name: str) -> set[str]:
        """First characters of the ids that the kubelet double says c0 holds: its cards."""
        return {device_id[0] for device_id in self.kubelet.held_ids(self.uid(name), "c0", RESOURCE)}

    def view(self, name: str, container: str = "c0") -> ContainerView:
        """What a container was given; it must have started."""
        found = self.kubelet.container_view(self.uid(name), container)
        assert found is not None, f"container {container} of {name} has not started"
        return found

    def variables(self, name: str) -> dict[str, str]:
        return self.view(name).environment

    def visible(self, name: str, container: str = "c0") -> str | None:
        """The card that a container was really given."""
        view = self.kubelet.container_view(self.uid(name), container)
        return view.environment.get("ENFLAME_VISIBLE_DEVICES") if view is not None else None

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a pod as ``kubectl delete`` does, with ``--force`` too, and wait until it is gone."""
        delete(self.api, "Pod", name, grace_s=0 if force else None)
        await self.until(lambda: self.api.store.get("pods", name) is None, f"{name} is gone")

    async def finish(self, name: str) -> None:
        """End a pod's containers successfully."""
        await self.kubelet.finish(self.uid(name))
        await self.until(lambda: self.pod(name)["status"]["phase"] == "Succeeded", f"{name} succeeds")

    async def until_failed(self, name: str) -> str:
        """Wait until the kubelet refuses a pod; returns its message."""
        await self.until(lambda: self.pod(name)["status"].get("phase") == "Failed", f"{name} is refused")
        message: str = self.pod(name)["status"]["message"]
        return message


def backwards(pods: Sequence[Pod]) -> Sequence[Pod]:
    """An order of admission that the plugin does not expect."""
    return sorted(pods, key=lambda pod: pod.full_name, reverse=True)


def container(name: str, units: int, resource: str = RESOURCE, **extra: Any) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"limits": {resource: str(units)}}, **extra}


def false_mirror(name: str, units: int, uid: str) -> dict[str, Any]:
    """A pod whose author names the node and says that it is the mirror of a static pod; a finalizer keeps it."""
    annotations = {"kubernetes.io/config.source": "file", MACHINE_UID: uid, MIRROR: uid}
    spec = {"nodeName": NODE, "containers": [container("c0", units)]}
    return an_object("Pod", name, metadata={"annotations": annotations, "finalizers": ["a.example/b"]}, spec=spec)
