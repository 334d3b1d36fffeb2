"""kube-scheduler and our extender with a control plane, and the pods that pass through both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.core.errors import NotFoundError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, PODS, Resource
from gcushare.vendors import ENFLAME, Vendor
from gcushare_playground.commands import extender_command, port_of
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS, node_of
from gcushare_playground.plans import ClusterPlan, Place
from gcushare_playground.processes import Child, Command
from tests.e2e.control_plane import NODE, ControlPlane
from tests.e2e.objects import JsonObject
from tests.protocol.followed import Followed

PRIORITY_CLASSES: Resource[JsonObject] = Resource(
    "apis/scheduling.k8s.io/v1", "priorityclasses", dict, namespaced=False
)
_AT_ONCE = 32
"""Requests in flight while many objects are written."""


class Scheduling(Followed):
    """One test's extender and scheduler; leaving the block ends them and deletes the test's pods and nodes."""

    def __init__(
        self,
        control_plane: ControlPlane,
        extender_flags: Sequence[str] = ("--no-leader-elect",),
        *,
        whole_cards: bool = False,
        claims: bool = False,
        vendor: Vendor = ENFLAME,
    ) -> None:
        super().__init__(control_plane.client)
        self.control_plane = control_plane
        self._whole_cards = whole_cards
        self._claims = claims
        self.vendor = vendor
        self.extender_url = ""
        self._flags = tuple(extender_flags)
        self._kept = frozenset(control_plane.children)

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.delete_pods()
            for name in [name for name in self.control_plane.children if name not in self._kept]:
                await self.control_plane.end(name)
            await self._forget_events()
            await self._each(self.client.delete(NODES, name) for name in self._own_nodes())
            await self.nodes.until(lambda: not self._own_nodes(), "the nodes are gone")
            await self.forget_closed_cards()
        finally:
            await super().__aexit__()

    async def forget_closed_cards(self) -> None:
        """Remove inventories: the next test's plugin would keep cards closed for pods that were deleted by force."""
        for name in list(self.nodes.objects):
            clean = {"metadata": {"annotations": {self.vendor.inventory_annotation: None}}}
            await self.client.patch(NODES, name, Patch(PatchKind.MERGE, clean))

    @property
    def settings(self) -> ExtenderEntry:
        options = ExtenderOptions(vendor=self.vendor.name, whole_cards=self._whole_cards, claims=self._claims)
        return ExtenderEntry(url=self.extender_url, options=options)

    @property
    def extender(self) -> Child:
        return self.control_plane.children["gcushare-scheduler-extender"]

    async def start_all(self) -> None:
        """Start the extender, then the scheduler that calls it."""
        await self.start_extender()
        await self.control_plane.start_scheduler(self.settings)

    async def start_extender(self) -> None:
        """Start the extender; one that ran before comes back on its port, which the scheduler knows."""
        port = port_of(self.extender_url) if self.extender_url else 0
        self.extender_url = await self.control_plane.start(self.extender_command(self._flags, port))

    def extender_command(self, flags: Sequence[str], port: int = 0) -> Command:
        """Write the command line of an extender of this cluster."""
        return extender_command(
            ClusterPlan(nodes=(), vendor=self.vendor, extender_flags=tuple(flags)), self.place, port
        )

    @property
    def place(self) -> Place:
        """Where the programs find their kubeconfig and leave their logs."""
        place = Place(self.control_plane.root)
        if not place.kubeconfig.exists():
            Path(place.kubeconfig).symlink_to(self.control_plane.kubeconfig)
        return place

    async def create_nodes(self, nodes: Iterable[JsonObject]) -> None:
        await self._each(self.client.create(NODE_OBJECTS, node) for node in nodes)

    async def create_pods(self, pods: Iterable[JsonObject]) -> None:
        await self._each(self.client.create(POD_OBJECTS, pod, namespace="default") for pod in pods)

    async def delete_pods(self, *, grace_s: int = 0) -> None:
        """Delete every pod and wait until all are gone; with a grace it is the kubelet that ends them."""
        names = self._own_pods()

        async def delete(name: str) -> None:
            with suppress(NotFoundError):  # A test had deleted it, and the watch shows that later.
                await self.client.delete(PODS, name, namespace="default", grace_s=grace_s)

        await self._each(map(delete, names))
        await self.pods.until(lambda: not self._own_pods(), "the pods are gone", deadline_s=180)

    def _own_pods(self) -> list[str]:
        """Name the tests' pods; those of other namespaces are the node's own (static pods)."""
        found = (each["metadata"] for each in self.pods.objects.values())
        return [metadata["name"] for metadata in found if metadata["namespace"] == "default"]

    def _own_nodes(self) -> list[str]:
        """Name the nodes that no one but a test made."""
        return [name for name in self.nodes.objects if not ("kubelet" in self._kept and name == NODE)]

    def pod(self, name: str) -> JsonObject:
        return self.pods.objects[f"default/{name}"]

    def bound(self) -> list[JsonObject]:
        """The tests' pods that have a node."""
        return [self.pod(name) for name in self._own_pods() if node_of(self.pod(name))]

    async def until_bound(self, *names: str, deadline_s: float = 180.0) -> None:
        """Wait until these pods have a node."""
        await self.pods.until(
            lambda: all(node_of(self.pods.objects.get(f"default/{name}", {"spec": {}})) for name in names),
            f"{', '.join(names)} are bound",
            deadline_s=deadline_s,
        )

    async def until_all_bound(self, count: int, *, deadline_s: float = 120.0) -> None:
        """Wait until this many pods have a node."""
        await self.pods.until(
            lambda: len(self.bound()) >= count,
            f"{count} pods are bound",
            deadline_s=deadline_s,
            shown=lambda: f"{len(self.bound())} of {len(self.pods.objects)} bound",
        )

    async def until_said(self, pod: str, reason: str, *, text: str = "", deadline_s: float = 180.0) -> str:
        """Wait for an event about a pod and return its message."""

        def messages() -> list[str]:
            return [
                str(each.get("message", ""))
                for each in self.events.objects.values()
                if each["involvedObject"].get("name") == pod and each.get("reason") == reason
            ]

        def fitting() -> list[str]:
            return [message for message in messages() if text in message]

        what = f"an event {reason} says {text!r} of {pod}"
        await self.events.until(lambda: bool(fitting()), what, deadline_s=deadline_s, shown=lambda: str(messages()))
        return fitting()[0]

    async def _forget_events(self) -> None:
        """Delete every event: the next test's pods may have the same names."""
        url = f"{self.control_plane.url}/api/v1/namespaces/default/events"
        while True:
            async with self.control_plane.http.delete(url) as answer:
                if answer.status != HTTPStatus.GATEWAY_TIMEOUT:  # with thousands of them; some are deleted then
                    answer.raise_for_status()
                    return

    async def _each(self, requests: Iterable[object]) -> None:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(request: object) -> None:
            async with limit:
                await request  # type: ignore[misc]  # an iterable of coroutines of different results

        async with asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(one(request))
