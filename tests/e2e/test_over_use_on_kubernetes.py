"""Evictions of pods over their grant on a real API server: the chart's right, budgets, and the annotation's guard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ConflictError, ForbiddenError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import find_api_server
from gcushare.kube.errors import EvictionRefusedError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import Resource
from gcushare.wire.annotations import OVER_USE
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.charts import PLUGIN_CHART, needs_helm, of_kind, rendered
from tests.e2e.control_plane import NODE, ControlPlane
from tests.e2e.installing import DEPLOY, account_kubeconfig, kubectl, until_policies_hold
from tests.e2e.objects import node, pod
from tests.e2e.waiting import until

BUDGETS: Resource[dict[str, Any]] = Resource("apis/policy/v1", "poddisruptionbudgets", dict)
ACCOUNT = "gcushare-device-plugin"
pytestmark = needs_helm


async def apply_rights(control_plane: ControlPlane, *values: str) -> None:
    """Create the chart's account and roles, with these values."""
    objects = of_kind(rendered(PLUGIN_CHART, *values), "ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    await asyncio.to_thread(kubectl, control_plane, "apply", "-f", "-", stdin=body)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plugin(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    """A client with the token of the plugin on its node; nothing of the charts runs."""
    await apply_rights(control_plane)
    admission = DEPLOY / "manifests" / "enflame" / "admission.yaml"
    await asyncio.to_thread(kubectl, control_plane, "apply", "-f", str(admission))
    await control_plane.client.create(NODE_OBJECTS, node(NODE, 16))
    await until_policies_hold(control_plane)
    config = find_api_server(str(await account_kubeconfig(control_plane, ACCOUNT, on_node=True)))
    async with KubeClient(config) as client:
        yield client


@asynccontextmanager
async def running_pod(control_plane: ControlPlane, name: str) -> AsyncIterator[PodRef]:
    """A pod on the node that is ready, which is what budgets count."""
    document = pod(name, 4, nodeName=NODE, terminationGracePeriodSeconds=0)
    document["metadata"]["labels"] = {"app": name}
    made = await control_plane.client.create(POD_OBJECTS, document, namespace="default")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await control_plane.client.patch(
        POD_OBJECTS, name, Patch(PatchKind.MERGE, {"status": status}), namespace="default", subresource="status"
    )
    yield PodRef(made["metadata"]["uid"], "default", name)


async def budget(control_plane: ControlPlane, name: str, app: str, allowed: int) -> None:
    """A budget as the disruption controller would keep it: no controller runs here."""
    made = await control_plane.client.create(
        BUDGETS,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        },
        namespace="default",
    )
    status = {
        "observedGeneration": made["metadata"]["generation"],
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 1 + allowed,
    }
    await control_plane.client.patch(
        BUDGETS, name, Patch(PatchKind.MERGE, {"status": status}), namespace="default", subresource="status"
    )


async def grant_evictions(control_plane: ControlPlane, plugin: KubeClient) -> None:
    """Turn evictions on in the chart, and wait until the API server knows the right."""
    await apply_rights(control_plane, "podUse=true", "overUse.action=evict")

    async def missing() -> str:
        try:
            await plugin.evict_pod(PodRef("none", "default", "stranger"))
        except NotFoundError:
            return ""
        except ForbiddenError as error:
            return str(error)
        return "a pod that is not there was evicted"

    await until(missing, "the right to evict holds")


async def test_an_eviction_needs_what_the_chart_gives_only_when_it_is_turned_on(
    control_plane: ControlPlane, plugin: KubeClient
) -> None:
    async with running_pod(control_plane, "greedy") as greedy:
        with pytest.raises(ForbiddenError, match="pods/eviction"):
            await plugin.evict_pod(greedy)
        await grant_evictions(control_plane, plugin)
        await plugin.evict_pod(greedy)
        with pytest.raises(NotFoundError):
            await control_plane.client.get(POD_OBJECTS, "greedy", namespace="default")
        with pytest.raises(NotFoundError):
            await plugin.evict_pod(greedy)


async def test_a_budget_refuses_by_name_and_allows_when_it_can(control_plane: ControlPlane, plugin: KubeClient) -> None:
    await grant_evictions(control_plane, plugin)
    async with running_pod(control_plane, "kept") as kept, running_pod(control_plane, "spare") as spare:
        await budget(control_plane, "keeps-one", "kept", 0)
        await budget(control_plane, "has-spare", "spare", 1)
        with pytest.raises(EvictionRefusedError, match="keeps-one"):
            await plugin.evict_pod(kept)
        await control_plane.client.get(POD_OBJECTS, "kept", namespace="default")
        await plugin.evict_pod(spare)
        with pytest.raises(NotFoundError):
            await control_plane.client.get(POD_OBJECTS, "spare", namespace="default")


async def test_a_pod_of_several_budgets_is_refused_too(control_plane: ControlPlane, plugin: KubeClient) -> None:
    await grant_evictions(control_plane, plugin)
    async with running_pod(control_plane, "twice") as twice:
        await budget(control_plane, "first", "twice", 1)
        await budget(control_plane, "second", "twice", 1)
        with pytest.raises(EvictionRefusedError, match="several disruption budgets"):
            await plugin.evict_pod(twice)


async def test_another_pod_of_the_name_is_not_evicted(control_plane: ControlPlane, plugin: KubeClient) -> None:
    await grant_evictions(control_plane, plugin)
    async with running_pod(control_plane, "namesake") as namesake:
        with pytest.raises(ConflictError):
            await plugin.evict_pod(PodRef("another-uid", namesake.namespace, namesake.name))
        await control_plane.client.get(POD_OBJECTS, "namesake", namespace="default")


async def test_the_plugin_notes_over_use_and_an_author_cannot(control_plane: ControlPlane, plugin: KubeClient) -> None:
    async with running_pod(control_plane, "noted") as noted:
        identity = PodRef(noted.uid, noted.namespace, noted.name)
        for text in ("{}", None):
            written = await plugin.patch_pod_annotations(identity, {OVER_USE: text})
            assert written.metadata.annotations.get(OVER_USE) == text
        forged = Patch(PatchKind.MERGE, {"metadata": {"annotations": {OVER_USE: "{}"}}})
        url = f"{control_plane.url}/api/v1/namespaces/default/pods/noted"
        headers = {
            "Content-Type": PatchKind.MERGE.value,
            "Impersonate-User": "author",
            "Impersonate-Group": "system:masters",
        }
        async with control_plane.http.patch(url, json=forged.body, headers=headers) as answer:
            assert (answer.status, "only gcushare writes" in await answer.text()) == (422, True)
