"""Our claims driver with a kubelet: claims and their pods, and what the containers were given."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import aiohttp
import msgspec
import pytest

from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, RESOURCE_SLICES, Selector
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.dra.slices import ResourceSlice
from gcushare_playground.picture import phase_of
from tests.e2e.assets import need_tools
from tests.e2e.claims import start_controller_manager
from tests.e2e.control_plane import NODE, ControlPlane
from tests.e2e.node_side import NodeSide, real_pod
from tests.e2e.objects import JsonObject
from tests.e2e.waiting import until

NAMES = ENFLAME.claims


def need_cdi() -> None:
    """Skip the test if containerd is too old to give containers what a claim brings."""
    containerd = need_tools("containerd", why="to run pods for a kubelet")["containerd"]
    text = subprocess.run([containerd, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\sv?(\d+)\.(\d+)\.", text)
    if version is None or (int(version[1]), int(version[2])) < (1, 7):
        pytest.skip(f"{text.strip()} knows no CDI: put containerd 1.7 or newer on the PATH to run this test")


async def start_controllers(control_plane: ControlPlane) -> None:
    """Start the controllers that make claims of templates, and delete them with their pods."""
    controllers = ("resourceclaim-controller", "garbage-collector-controller")
    await start_controller_manager(control_plane, controllers, "--kube-api-qps=500", "--kube-api-burst=500")


def pod_of(name: str, *claims: str) -> JsonObject:
    """Write a pod of one container that uses these claims."""
    body = real_pod(name, 0, resourceClaims=[{"name": each, "resourceClaimName": each} for each in claims])
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": each} for each in claims]}
    return body


class ClaimsSide(NodeSide):
    """The node of one test, whose cards may be given to claims."""

    url = ""
    """Of the plugin's own port."""

    @property
    def directory(self) -> Path:
        """The driver's own, with socket and checkpoint."""
        return self.machine.root / "plugins" / NAMES.driver

    async def start_driver(self) -> None:
        """Start the driver, or start it again, and wait until it is registered and its slice stands in the cluster."""
        labels = {"metadata": {"labels": {SERVE_LABEL: SERVE_CLAIMS}}}
        await self.scheduling.client.patch(NODES, NODE, Patch(PatchKind.MERGE, labels))
        self.url = await self.start_plugin()

        async def missing() -> str:
            return await self.readiness() or ("" if await self.slices() else "no slice")

        await until(missing, "the driver is ready")

    async def readiness(self) -> str:
        """Why the driver is not ready; empty if it is."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/readyz") as answer:
            return "" if answer.status == 200 else await answer.text()

    async def slices(self) -> list[ResourceSlice]:
        """The node's slices as they stand now."""
        selector = Selector(fields=f"spec.nodeName={NODE},spec.driver={NAMES.driver}")
        return await self.scheduling.client.list_all(RESOURCE_SLICES, selector)

    async def until_started(self, *names: str) -> None:
        """Wait until pods with claims run; they have no record."""
        found = self.scheduling.pods.objects

        def phases() -> list[str]:
            return [phase_of(found[key]) if (key := f"default/{name}") in found else "missing" for name in names]

        await self.scheduling.pods.until(
            lambda: set(phases()) == {"Running"}, f"{', '.join(names)} run", shown=lambda: str(phases())
        )

    def prepared(self) -> set[str]:
        """The names of the claims in the driver's checkpoint."""
        document = msgspec.json.decode((self.directory / "checkpoint.json").read_bytes())
        return {each["name"] for each in document.get("claims", {}).values()}

    def cdi_files(self) -> list[str]:
        """The claims' CDI files."""
        return sorted(each.name for each in self.machine.cdi.glob(f"{NAMES.driver}-claim-*.json"))
