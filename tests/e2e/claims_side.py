"""Our claims driver with a kubelet: device classes, claims and their pods, and what the containers were given."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from gcushare.core.units import GIB
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource, Selector
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.dra.claims import ResourceClaim
from gcushare.wire.dra.slices import ResourceSlice
from gcushare_playground.commands import plugin_command
from gcushare_playground.picture import phase_of
from gcushare_playground.plans import ClusterPlan, NodePlan
from gcushare_playground.processes import Child
from tests.e2e.assets import need_binaries, need_tools
from tests.e2e.control_plane import NODE, ControlPlane
from tests.e2e.images import NAME
from tests.e2e.machine import Machine
from tests.e2e.objects import JsonObject
from tests.e2e.scheduling import Scheduling
from tests.e2e.waiting import until

NAMES = ENFLAME.claims
DEVICE_CLASSES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "deviceclasses", dict, namespaced=False)
CLAIM_OBJECTS: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaims", dict)
TWO = NodePlan(name=NODE, card_bytes=(16 * GIB,) * 2)


def need_cdi() -> None:
    """Skip the test if containerd is too old to give containers what a claim brings."""
    containerd = need_tools("containerd", why="to run pods for a kubelet")["containerd"]
    text = subprocess.run([containerd, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\s(\d+)\.(\d+)\.", text)
    if version is None or (int(version[1]), int(version[2])) < (1, 7):
        pytest.skip(f"{text.strip()} knows no CDI: put containerd 1.7 or newer on the PATH to run this test")


async def start_controllers(control_plane: ControlPlane) -> None:
    """Start the controllers that make claims of templates, reserve and release them."""
    binary = need_binaries("kube-controller-manager")["kube-controller-manager"]
    await control_plane.start(
        control_plane.command(
            "kube-controller-manager",
            *(str(binary), f"--kubeconfig={control_plane.kubeconfig}", "--leader-elect=false", "--v=2"),
            *("--controllers=resourceclaim-controller,garbage-collector-controller", "--bind-address=127.0.0.1"),
            *("--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=500"),
            ready=re.compile(r"(Starting resource claim controller)"),
        )
    )


def device_class(name: str, resource: str = "") -> JsonObject:
    """Write a class of the driver's cards."""
    rule = f'device.driver == "{NAMES.driver}"'
    spec: JsonObject = {"selectors": [{"cel": {"expression": rule}}]}
    return {"metadata": {"name": name}, "spec": spec | ({"extendedResourceName": resource} if resource else {})}


def claim(name: str, gib: int, *, whole: bool = False) -> JsonObject:
    """Write a claim on memory of one card, or on a whole one."""
    exactly: JsonObject = {"deviceClassName": NAMES.whole_class if whole else NAMES.memory_class}
    if not whole:
        exactly["capacity"] = {"requests": {"memory": f"{gib}Gi"}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "card", "exactly": exactly}]}}}


def pod_of(name: str, claim_name: str) -> JsonObject:
    """Write a pod of one container that uses a claim."""
    container = {
        "name": "main",
        "image": NAME,
        "imagePullPolicy": "Never",
        "resources": {"claims": [{"name": "card"}]},
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "card", "resourceClaimName": claim_name}],
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 1,
        },
    }


class ClaimsSide:
    """The node of one test: its cards, its driver, its claims and their pods."""

    def __init__(self, machine: Machine, scheduling: Scheduling, plan: NodePlan) -> None:
        self.machine = machine
        self.scheduling = scheduling
        self.node = plan
        self._plan = ClusterPlan(nodes=(plan,), vendor=ENFLAME, plugin_flags=("--poll-interval", "500ms"))
        self._name = f"gcushare-device-plugin-{plan.name}"
        self.url = ""

    @property
    def driver(self) -> Child:
        return self.scheduling.control_plane.children[self._name]

    @property
    def directory(self) -> Path:
        """The driver's own, with socket and checkpoint."""
        return self.machine.root / "plugins" / NAMES.driver

    async def start_driver(self) -> None:
        """Start the driver, or start it again, and wait until it is ready."""
        labels = {"metadata": {"labels": {SERVE_LABEL: SERVE_CLAIMS}}}
        await self.scheduling.client.patch(NODES, NODE, Patch(PatchKind.MERGE, labels))
        command = plugin_command(self._plan, self.scheduling.place, self.node)
        self.url = await self.scheduling.control_plane.start(command)
        await self.until_ready()

    async def until_ready(self) -> None:
        """Wait until the driver is registered and its slices stand in the cluster."""

        async def missing() -> str:
            return await self.readiness() or ("" if await self.slices() else "no slices")

        await until(missing, "the driver is ready")

    async def readiness(self) -> str:
        """Why the driver is not ready; empty if it is."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/readyz") as answer:
            return "" if answer.status == 200 else await answer.text()

    def set_health(self, sick: Mapping[int, str] | None = None) -> None:
        """Write the cards' file; ``sick`` gives cards with their reasons."""
        file = self.scheduling.place.cards_file(self.node)
        half = file.with_suffix(".half")
        half.write_bytes(self.node.cards_document(sick))
        half.replace(file)

    async def slices(self) -> list[ResourceSlice]:
        """The node's slices as they stand now."""
        selector = Selector(fields=f"spec.nodeName={NODE},spec.driver={NAMES.driver}")
        return await self.scheduling.client.list_all(RESOURCE_SLICES, selector)

    async def listed(self) -> list[str]:
        """The shares in the order in which they are listed."""
        found = sorted(await self.slices(), key=lambda each: each.metadata.name)
        return [device.name for each in found for device in each.spec.devices if device.allow_multiple_allocations]

    async def run(self, name: str, gib: int = 0, *, whole: bool = False) -> None:
        """Create a claim and its pod, both of this name, and wait until the pod runs."""
        await self.create(name, gib, whole=whole)
        await self.until_running(name)

    async def create(self, name: str, gib: int = 0, *, whole: bool = False) -> None:
        """Create a claim and its pod, both of this name."""
        await self.scheduling.client.create(CLAIM_OBJECTS, claim(name, gib, whole=whole), namespace="default")
        await self.scheduling.create_pods([pod_of(name, name)])

    async def until_running(self, *names: str) -> None:
        """Wait until pods run."""
        found = self.scheduling.pods.objects

        def phases() -> list[str]:
            return [phase_of(found[key]) if (key := f"default/{name}") in found else "missing" for name in names]

        await self.scheduling.pods.until(
            lambda: set(phases()) == {"Running"}, f"{', '.join(names)} run", shown=lambda: str(phases())
        )

    async def delete(self, name: str) -> None:
        """Delete a pod and its claim as a user would; returns when the claim is gone."""
        client = self.scheduling.client
        await client.delete(CLAIM_OBJECTS, name, namespace="default")
        await client.delete(Resource("api/v1", "pods", dict), name, namespace="default")

        async def left() -> str:
            claims = await client.list_all(RESOURCE_CLAIMS, Selector(namespace="default"))
            return name if name in {each.metadata.name for each in claims} else ""

        await until(left, f"claim {name} is gone")

    async def allocated(self, name: str) -> list[str]:
        """The devices that the scheduler allocated to a claim."""
        found: ResourceClaim = await self.scheduling.client.get(RESOURCE_CLAIMS, name, namespace="default")
        return [each.device for each in found.results_of(NAMES.driver)]

    def prepared(self) -> set[str]:
        """The names of the claims in the driver's checkpoint."""
        document = msgspec.json.decode((self.directory / "checkpoint.json").read_bytes())
        return {each["name"] for each in document.get("claims", {}).values()}

    def cdi_files(self) -> list[str]:
        """The claims' CDI files."""
        return sorted(each.name for each in self.machine.cdi.glob(f"{NAMES.driver}-claim-*.json"))

    async def seen(self, name: str) -> dict[str, str]:
        """The environment that a pod's container says it has."""
        lines: list[str] = []

        async def missing() -> str:
            lines[:] = self.machine.logs(self.scheduling.pod(name))
            return "" if "READY" in lines else f"it wrote {lines}"

        await until(missing, f"{name} says that it is ready")
        pairs = (line.removeprefix("ENV ").partition("=") for line in lines if line.startswith("ENV "))
        return {key: value for key, _, value in pairs}


@asynccontextmanager
async def claims_side(machine: Machine, plan: NodePlan = TWO) -> AsyncIterator[ClaimsSide]:
    """Run one test's driver and scheduler; both end with it, and its claims and classes are deleted."""
    async with Scheduling(machine.control_plane) as scheduling:
        client = scheduling.client
        classes = (
            device_class(NAMES.memory_class),
            device_class(NAMES.whole_class, ENFLAME.whole_card_resource),
        )
        for each in classes:
            await client.create(DEVICE_CLASSES, each)
        side = ClaimsSide(machine, scheduling, plan)
        side.set_health()
        try:
            await start_controllers(machine.control_plane)
            await side.start_driver()
            await machine.control_plane.start_scheduler(None)
            yield side
        finally:
            await scheduling.delete_pods(grace_s=1)
            claims = await client.list_all(RESOURCE_CLAIMS, Selector(namespace="default"))
            await asyncio.gather(
                *(client.delete(CLAIM_OBJECTS, each.metadata.name, namespace="default") for each in claims),
                *(client.delete(DEVICE_CLASSES, each["metadata"]["name"]) for each in classes),
            )
