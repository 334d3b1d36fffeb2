"""Our device plugin with a kubelet; the kubelet and the containers themselves say which card each of them has."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.annotations import decode_record
from gcushare.wire.kubelet.device_ids import cards_of_ids, decode_whole_card_id
from gcushare_playground.commands import plugin_command
from gcushare_playground.picture import allocatable_of, node_of, phase_of
from gcushare_playground.plans import ClusterPlan, NodePlan
from gcushare_playground.processes import Child, Command
from tests.e2e.control_plane import NODE
from tests.e2e.images import NAME
from tests.e2e.machine import Machine
from tests.e2e.objects import JsonObject, pod
from tests.e2e.scheduling import Scheduling
from tests.e2e.waiting import until

UNITS = ENFLAME.memory_resource
WHOLE = ENFLAME.whole_card_resource


class NodeSide:
    """The node of one test: its cards, its plugin, and its pods as seen from three sides."""

    def __init__(
        self,
        machine: Machine,
        scheduling: Scheduling,
        node: NodePlan,
        *,
        unit: str = "",
        mode: str = "memory",
        kubeconfig: Path | None = None,
    ) -> None:
        self.machine = machine
        self.scheduling = scheduling
        self.node = node
        self._kubeconfig = kubeconfig
        flags = ("--poll-interval", "500ms", "--mode", mode)
        self._plan = ClusterPlan(nodes=(node,), vendor=scheduling.vendor, memory_unit=unit, plugin_flags=flags)
        self._name = f"gcushare-device-plugin-{node.name}"

    @property
    def plugin(self) -> Child:
        return self.scheduling.control_plane.children[self._name]

    @property
    def vendor(self) -> Vendor:
        return self.scheduling.vendor

    @property
    def units(self) -> int:
        """What the whole node offers."""
        return sum(self._plan.units_per_card(self.node))

    async def start_plugin(self) -> str:
        """Start the plugin, or start it again; returns the URL of its port."""
        command = self.command(self._plan)
        if self._kubeconfig is not None:
            command = with_kubeconfig(command, self._kubeconfig)
        return await self.scheduling.control_plane.start(command)

    def command(self, plan: ClusterPlan) -> Command:
        """How the plugin is started."""
        return plugin_command(plan, self.scheduling.place, self.node)

    async def restart_kubelet(self) -> None:
        """Kill the kubelet and start it; returns when a plugin that runs has registered with the new one.

        Until then the Node may still offer what it offered before, and the kubelet fails pods that ask for it.
        """
        resources, before = self._registrations()
        expected = before + resources if self.plugin.is_running else 0
        await self.machine.kill_kubelet()
        await self.machine.start_kubelet()

        async def what_is_missing() -> str:
            _, seen = self._registrations()
            return "" if seen >= expected else f"{seen} registrations of {expected}"

        await until(what_is_missing, "the plugin registers with the new kubelet")

    def _registrations(self) -> tuple[int, int]:
        """How many resources the plugin registers, and how often it has done so in all."""
        lines = re.findall(r"registered with the kubelet resource=(\S+)", self.plugin.log_file.read_text())
        return len(set(lines)), len(lines)

    def set_health(self, sick: Mapping[int, str] | None = None) -> None:
        """Write the cards' file; ``sick`` gives cards with their reasons."""
        file = self.scheduling.place.cards_file(self.node)
        half = file.with_suffix(".half")
        half.write_bytes(self.node.cards_document(sick))
        half.replace(file)

    async def until_allocatable(self, units: int, *, resource: str = "") -> None:
        """Wait until the kubelet offers this many units of the vendor's memory, or of another resource."""
        nodes, name = self.scheduling.nodes, resource or self.vendor.memory_resource

        def offered() -> int:
            return allocatable_of(nodes.objects.get(NODE, {}), name)

        what = f"{NODE} offers {units} of {name}"
        await nodes.until(lambda: offered() == units, what, deadline_s=180.0, shown=lambda: str(offered()))

    async def annotate(self, key: str, value: str | None) -> None:
        """Write or remove an annotation of the node, as an admin would."""
        body = {"metadata": {"annotations": {key: value}}}
        await self.scheduling.client.patch(NODES, NODE, Patch(PatchKind.MERGE, body))

    async def run_pods(self, *bodies: JsonObject, deadline_s: float = 180.0) -> None:
        """Create pods and wait until each runs and its record is confirmed."""
        await self.scheduling.create_pods(bodies)
        await self.until_running(*(body["metadata"]["name"] for body in bodies), deadline_s=deadline_s)

    async def until_running(self, *names: str, deadline_s: float = 180.0) -> None:
        """Wait until pods run and their records are confirmed."""
        found = self.scheduling.pods.objects

        def state(name: str) -> tuple[str, bool]:
            each = found.get(f"default/{name}")
            if each is None:
                return "missing", False
            record = decode_record(self.vendor, each["metadata"].get("annotations") or {})
            return phase_of(each), record is not None and record.assigned

        def failures() -> list[str]:
            failed = [name for name in names if state(name)[0] == "Failed"]
            return [f"{name} failed: {found[f'default/{name}']['status'].get('message')}" for name in failed]

        await self.scheduling.pods.until(
            lambda: bool(failures()) or all(state(name) == ("Running", True) for name in names),
            f"{', '.join(names)} run with a confirmed record",
            deadline_s=deadline_s,
            shown=lambda: str({name: state(name) for name in names}),
        )
        assert not failures(), "\n".join(failures())

    def recorded(self, name: str) -> tuple[int, ...]:
        """The cards that a pod's annotations name."""
        record = decode_record(self.vendor, self.scheduling.pod(name)["metadata"]["annotations"])
        assert record is not None
        return record.card_indexes

    def granted(self, name: str) -> dict[int, int]:
        """The units per card that the kubelet's own record gives a pod."""
        return dict(cards_of_ids(self._held_ids(name, self.vendor.memory_resource)))

    def granted_whole(self, name: str) -> tuple[int, ...]:
        """The whole cards that the kubelet's own record gives a pod."""
        return tuple(sorted(map(decode_whole_card_id, self._held_ids(name, self.vendor.whole_card_resource))))

    def _held_ids(self, name: str, resource: str) -> list[str]:
        uid = self.scheduling.pod(name)["metadata"]["uid"]
        document: dict[str, Any] = msgspec.json.decode(
            (self.machine.plugins / "kubelet_internal_checkpoint").read_bytes()
        )
        entries = document["Data"]["PodDeviceEntries"] or []
        return [
            each
            for entry in entries
            if entry["PodUID"] == uid and entry["ResourceName"] == resource
            for group in entry["DeviceIDs"].values()
            for each in group
        ]

    async def seen(self, name: str, container: str = "main", *, deadline_s: float = 180.0) -> dict[str, str]:
        """The environment that a pod's container says it has."""
        return await self.machine.environment(self.scheduling.pod(name), container, deadline_s=deadline_s)

    async def end_init_container(self, name: str, container: str) -> None:
        """End an init container that runs, as if it were done."""

        def running() -> list[str]:
            statuses = self.scheduling.pod(name)["status"].get("initContainerStatuses") or []
            return [
                each["containerID"] for each in statuses if each["name"] == container and "running" in each["state"]
            ]

        await self.scheduling.pods.until(lambda: bool(running()), f"{container} of {name} runs")
        (at,) = running()
        await self.machine.end_container(at.removeprefix("containerd://"))

    async def expect_true(self, *names: str) -> None:
        """Check that record, kubelet and container name the same card, for each of these pods."""
        for name in names:
            (card,) = self.recorded(name)
            units = int(
                self.scheduling.pod(name)["spec"]["containers"][0]["resources"]["limits"][self.vendor.memory_resource]
            )
            assert self.granted(name) == {card: units}, f"{name}: record says card {card}"
            assert (await self.seen(name))[ENFLAME.environment.visible] == str(card)
            assert node_of(self.scheduling.pod(name)) == NODE


StartNode = Callable[[NodePlan], Awaitable[NodeSide]]
"""Starts plugin, extender and scheduler for one test's cards."""


@asynccontextmanager
async def node_starter(
    machine: Machine, *, whole_cards: bool = False, vendor: Vendor = ENFLAME
) -> AsyncIterator[StartNode]:
    """Give one test's node, whose programs end with it; ``whole_cards`` has all of them serve both kinds of pod."""
    async with Scheduling(machine.control_plane, whole_cards=whole_cards, vendor=vendor) as scheduling:

        async def start(plan: NodePlan) -> NodeSide:
            side = NodeSide(machine, scheduling, plan, mode="both" if whole_cards else "memory")
            side.set_health()
            await side.start_plugin()
            await scheduling.start_all()
            await side.until_allocatable(side.units)
            if whole_cards:
                await side.until_allocatable(len(plan.card_bytes), resource=WHOLE)
            return side

        yield start


def with_kubeconfig(command: Command, path: Path) -> Command:
    """Have a program be somebody else."""
    arguments = list(command.arguments)
    arguments[arguments.index("--kubeconfig") + 1] = str(path)
    return replace(command, arguments=tuple(arguments))


def real_pod(name: str, units: int, *, whole: int = 0, vendor: Vendor = ENFLAME, **spec: Any) -> JsonObject:
    """Write a pod that this machine can run."""
    body = pod(name, units, whole=whole, vendor=vendor, hostNetwork=True, **spec)
    body["spec"]["terminationGracePeriodSeconds"] = 1
    body["spec"]["containers"][0] |= {"image": NAME, "imagePullPolicy": "Never"}
    return body
