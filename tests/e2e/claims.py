"""The claims chart on a control plane with kube-controller-manager, and nodes whose slices a test writes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from gcushare.core.errors import GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NAMESPACES, Resource
from gcushare.vendors import ENFLAME, Vendor
from tests.charts import UMBRELLA_CHART, Rendering, needs_helm, of_kind, render
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.e2e.objects import JsonObject, pod
from tests.e2e.waiting import until

CLAIMS_CHART = UMBRELLA_CHART / "charts/gcushare-claims"
CONTROLLER_MANAGER = "kube-controller-manager"
TEMPLATES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaimtemplates", dict)
CLAIMS: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaims", dict)
SLICES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceslices", dict, namespaced=False)
OPTED_IN = {"gcushare.io/claims": "enabled"}
GIB = 2**30
_POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
_PLURALS = {
    "DeviceClass": ("apis/resource.k8s.io/v1", "deviceclasses"),
    **{
        kind + suffix: ("apis/admissionregistration.k8s.io/v1", kind.lower()[:-1] + "ies" if not suffix else "")
        for kind in _POLICIES
        for suffix in ("", "Binding")
    },
}

__all__ = ["needs_helm"]


def _resource(kind: str) -> Resource[JsonObject]:
    prefix, plural = _PLURALS[kind]
    return Resource(prefix, plural or f"{kind.lower()}s", dict, namespaced=False)


async def install(control_plane: ControlPlane, *sets: str, vendor: Vendor = ENFLAME) -> None:
    """Create the chart's DeviceClasses and admission policies, and wait until the policies hold in ``default``."""
    values = dict(pair.split("=", 1) for pair in (f"vendor={vendor.name}", *sets))
    client = control_plane.client
    for each in of_kind(render(CLAIMS_CHART, Rendering(sets=values)), *_PLURALS):
        await client.create(_resource(each["kind"]), each)
    await opt_in(client, "default")
    body = pod("probe", 1, vendor=vendor)
    refused = pod("probe", 1, vendor=vendor, nodeName="nowhere")

    async def missing() -> str:
        url = f"{control_plane.url}/api/v1/namespaces/default/pods?dryRun=All"
        async with control_plane.http.post(url, json=refused) as answer:
            if answer.status != 422:
                return f"a pod with a node is answered {answer.status}"
        async with control_plane.http.post(url, json=body) as answer:
            made = await answer.json()
            return "" if "resourceClaims" in made.get("spec", {}) else f"a pod is answered {made}"

    await until(missing, "the policies hold", deadline_s=60)


async def opt_in(client: KubeClient, namespace: str) -> None:
    """Give a namespace the label, and create it if it does not exist."""
    try:
        await client.create(NAMESPACES, {"metadata": {"name": namespace, "labels": OPTED_IN}})
    except GcushareError:
        await client.patch(NAMESPACES, namespace, Patch(PatchKind.MERGE, {"metadata": {"labels": OPTED_IN}}))


async def start_controller_manager(
    control_plane: ControlPlane, controllers: Sequence[str] = ("resourceclaim-controller",), *flags: str
) -> None:
    """Start kube-controller-manager with some of its controllers; ``flags`` such as ``--kube-api-qps``."""
    binary = need_binaries(CONTROLLER_MANAGER)[CONTROLLER_MANAGER]
    kubeconfig = control_plane.kubeconfig_of(ADMIN)
    await control_plane.start(
        control_plane.command(
            CONTROLLER_MANAGER,
            str(binary),
            *(f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}"),
            *(f"--authorization-kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"),
            *("--secure-port=0", f"--controllers={','.join(controllers)}", "--v=1"),
            *flags,
            ready=re.compile(r"(Controller starting\.\.\.)"),
        )
    )


async def create_each(client: KubeClient, resource: Resource[JsonObject], bodies: Sequence[Any]) -> None:
    """Create objects of a resource of the whole cluster, or in ``default``, 32 at a time."""
    limit = asyncio.Semaphore(32)

    async def one(body: JsonObject) -> None:
        async with limit:
            await client.create(resource, body, namespace="default" if resource.namespaced else None)

    async with asyncio.TaskGroup() as group:
        for body in bodies:
            group.create_task(one(body))
