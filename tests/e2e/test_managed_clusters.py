"""docs/managed-clusters.md as it is typed: one values file, a pod as it is, and a claim on a model of card."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from ruamel.yaml import YAML

from gcushare.vendors import ALIYUN
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.charts import needs_helm
from tests.documents import commands, page_text
from tests.e2e.assets import need_binaries
from tests.e2e.claims import (
    SLICES,
    claim_node,
    create_each,
    slices_of,
    start_controller_manager,
    start_extender,
    try_pod,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installing import type_in
from tests.e2e.objects import pod
from tests.e2e.waiting import until

pytestmark = needs_helm

PAGE = "managed-clusters.md"
INSTALL, LOOK = (commands(PAGE, block) for block in range(2))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane) -> AsyncIterator[Path]:
    """Two nodes of another model each, and what the page installs; kube-scheduler has its defaults."""
    need_binaries("kube-scheduler")
    folder = control_plane.root / "typed"
    folder.mkdir()
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


async def until_bound(control_plane: ControlPlane, name: str) -> str:
    """Wait until a pod has a node, and name it."""
    found = ""

    async def missing() -> str:
        nonlocal found
        body = await control_plane.client.get(POD_OBJECTS, name, namespace="default")
        found = body["spec"].get("nodeName", "")
        return "" if found else str(body["status"])

    await until(missing, f"{name} is bound", deadline_s=120)
    return found


async def until_policies_hold(control_plane: ControlPlane) -> None:
    async def missing() -> str:
        _, made = await try_pod(control_plane, pod("probe", 1, vendor=ALIYUN))
        return "" if "resourceClaims" in made.get("spec", {}) else f"a pod is answered {made}"

    await until(missing, "the policies hold", deadline_s=60)


async def test_the_pod_of_the_page_gets_a_claim_of_its_size(control_plane: ControlPlane, cluster: Path) -> None:
    await until_policies_hold(control_plane)
    await create(control_plane, cluster, page_text(PAGE, "# pod"))
    await until_bound(control_plane, "first")
    said = await type_in(control_plane, LOOK, cluster)
    assert said.startswith("gpu-mem-4")
    assert "allocated" in said
    assert "4/16" in said


async def create(control_plane: ControlPlane, folder: Path, text: str) -> None:
    path = folder / "block.yaml"
    path.write_text(text)
    await type_in(control_plane, f"kubectl create -f {path}")


async def test_a_claim_takes_a_card_by_its_model_and_is_counted(control_plane: ControlPlane, cluster: Path) -> None:
    text = page_text(PAGE, "# by-model")
    await create(control_plane, cluster, text)
    assert await until_bound(control_plane, "on-a-t4") == "node-1"
    await create(control_plane, cluster, text.replace("t4", "a100").replace("Tesla T4", "A100"))
    assert await until_bound(control_plane, "on-a-a100") == "node-2"
    said = await type_in(control_plane, "kubectl inspect gpushare node-2")
    assert "6/16" in said


async def test_models_in_an_order_are_alternatives_of_one_request(control_plane: ControlPlane, cluster: Path) -> None:
    """As the page says: ``firstAvailable`` in place of ``exactly``; no card is of the first model."""
    objects = list(YAML(typ="safe").load_all(page_text(PAGE, "# by-model").replace("t4", "first")))
    (request,) = objects[0]["spec"]["spec"]["devices"]["requests"]
    exactly = request.pop("exactly")
    request["firstAvailable"] = []
    for name in ("H200", "A100"):
        selectors = [{"cel": {"expression": f"device.attributes['aliyun.gcushare.io'].model == '{name}'"}}]
        request["firstAvailable"].append({**exactly, "name": name.lower(), "selectors": selectors})
    await create(control_plane, cluster, json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert await until_bound(control_plane, "on-a-first") == "node-2"
    said = await type_in(control_plane, "kubectl inspect gpushare node-2")
    assert "12/16" in said or said.count("6/16") == 2
