"""docs/managed-clusters.md as it is typed: one values file, a pod as it is, and a claim on a model of card."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gcushare.vendors import ALIYUN
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.charts import needs_helm
from tests.documents import ROOT
from tests.e2e.assets import need_binaries
from tests.e2e.claims import (
    CLAIMS,
    SLICES,
    claim_node,
    create_each,
    slices_of,
    start_controller_manager,
    start_extender,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installing import type_in
from tests.e2e.waiting import until
from tests.pages import commands, page_text

pytestmark = needs_helm

PAGE = "managed-clusters.md"
INSTALL, LOOK = (commands(PAGE, block) for block in range(2))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane) -> AsyncIterator[Path]:
    """Two nodes of another model each, and what the page installs; kube-scheduler has its defaults."""
    need_binaries("kube-scheduler")
    folder = control_plane.root / "typed"
    folder.mkdir()
    (folder / "deploy").symlink_to(ROOT / "deploy")
    (folder / "claims.yaml").write_text(page_text(PAGE, "# values"))
    models = {"node-1": "Tesla T4", "node-2": "A100"}
    await create_each(control_plane.client, NODE_OBJECTS, [claim_node(name, vendor=ALIYUN) for name in models])
    for name, model in models.items():
        await create_each(control_plane.client, SLICES, slices_of(name, 2, 16, ALIYUN, model))
    said = await type_in(control_plane, INSTALL, folder)
    assert "STATUS: deployed" in said
    assert "namespace/default labeled" in said
    await start_controller_manager(control_plane)
    await start_extender(control_plane, "--vendor", "aliyun")
    await control_plane.start_scheduler(None)
    yield folder


async def apply(control_plane: ControlPlane, folder: Path, beginning: str) -> None:
    """Create what a block of the page shows; the policies may hold only a moment after helm ended."""
    path = folder / "block.yaml"
    path.write_text(page_text(PAGE, beginning))
    await type_in(control_plane, f"kubectl create -f {path}")


async def until_bound(control_plane: ControlPlane, name: str) -> str:
    """Wait until a pod has a node, and name it."""
    found = ""

    async def missing() -> str:
        nonlocal found
        pod = await control_plane.client.get(POD_OBJECTS, name, namespace="default")
        found = pod["spec"].get("nodeName", "")
        return "" if found else str(pod["status"])

    await until(missing, f"{name} is bound", deadline_s=120)
    return found


async def until_policies_hold(control_plane: ControlPlane) -> None:
    async def missing() -> str:
        url = f"{control_plane.url}/api/v1/namespaces/default/pods?dryRun=All"
        body = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
        body["spec"]["containers"][0]["resources"] = {"limits": {ALIYUN.memory_resource: "1"}}  # type: ignore[index]
        async with control_plane.http.post(url, json=body) as answer:
            made = await answer.json()
            return "" if "resourceClaims" in made.get("spec", {}) else f"a pod is answered {made}"

    await until(missing, "the policies hold", deadline_s=60)


async def test_the_pod_of_the_page_gets_a_claim_of_its_size(control_plane: ControlPlane, cluster: Path) -> None:
    await until_policies_hold(control_plane)
    await apply(control_plane, cluster, "# pod")
    await until_bound(control_plane, "first")
    said = await type_in(control_plane, LOOK, cluster)
    assert said.startswith("gpu-mem-4")
    assert "allocated" in said
    assert "4/16" in said


async def test_a_claim_takes_a_card_by_its_model(control_plane: ControlPlane, cluster: Path) -> None:
    await apply(control_plane, cluster, "# by-model")
    assert await until_bound(control_plane, "on-a-t4") == "node-1"
    text = page_text(PAGE, "# by-model").replace("t4", "a100").replace("Tesla T4", "A100")
    (cluster / "block.yaml").write_text(text)
    await type_in(control_plane, f"kubectl create -f {cluster / 'block.yaml'}")
    assert await until_bound(control_plane, "on-a-a100") == "node-2"
    for each in await control_plane.client.list_all(CLAIMS):
        assert each["status"]["allocation"]
