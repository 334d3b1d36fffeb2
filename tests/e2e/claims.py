"""What claims need on a control plane: policies, kube-controller-manager, the extender, and nodes with slices."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter as Counter_
from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from gcushare.core.cards import SERVES_CLAIMS
from gcushare.core.errors import GcushareError
from gcushare.core.quantities import parse_quantity
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NAMESPACES, Resource
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.contracts import EXTENDER
from gcushare.wire.dra.claim_names import ClaimSize
from gcushare.wire.dra.claims import ResourceClaim
from gcushare.wire.dra.slices import (
    MEMORY,
    Attribute,
    Capacity,
    Device,
    RequestPolicy,
    ResourcePool,
    ResourceSlice,
    SliceSpec,
    ValidRange,
    new_slice,
)
from gcushare.wire.nodes import decode_inventory, encode_inventory
from gcushare.wire.objects import ObjectMeta
from tests.charts import EXTENDER_CHART, Rendering, of_kind, render
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.e2e.installing import account_kubeconfig
from tests.e2e.objects import JsonObject, node, pod
from tests.e2e.waiting import until

CONTROLLER_MANAGER = "kube-controller-manager"
TEMPLATES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaimtemplates", dict)
CLAIMS: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaims", dict)
SLICES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceslices", dict, namespaced=False)
OPTED_IN = {"gcushare.io/claims": "enabled"}
GIB = 2**30
_ACCOUNT = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
_PLURALS = {
    "DeviceClass": ("apis/resource.k8s.io/v1", "deviceclasses"),
    **{
        kind + suffix: ("apis/admissionregistration.k8s.io/v1", kind.lower()[:-1] + "ies" if not suffix else "")
        for kind in _POLICIES
        for suffix in ("", "Binding")
    },
}


def _resource(kind: str) -> Resource[JsonObject]:
    prefix, plural = _PLURALS[kind]
    return Resource(prefix, plural or f"{kind.lower()}s", dict, namespaced=False)


async def install(control_plane: ControlPlane, *sets: str, vendor: Vendor = ENFLAME) -> None:
    """Create the chart's DeviceClasses and policies of claims, and wait until the policies hold in ``default``."""
    client = control_plane.client
    for each in of_kind(_extender_objects(f"vendor={vendor.name}", *sets), *_PLURALS):
        if each["kind"] == "DeviceClass" or each["metadata"]["name"].startswith("gcushare-claims"):
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


async def call_extender(control_plane: ControlPlane, *, called: bool) -> None:
    """Have the policy mark the pods of claims for the extender, or no longer; returns once it does."""
    for each in of_kind(_extender_objects(f"claims.callExtender={str(called).lower()}"), "MutatingAdmissionPolicy"):
        change = Patch(PatchKind.MERGE, {"spec": each["spec"]})
        await control_plane.client.patch(_resource(each["kind"]), each["metadata"]["name"], change)

    async def missing() -> str:
        url = f"{control_plane.url}/api/v1/namespaces/default/pods?dryRun=All"
        async with control_plane.http.post(url, json=pod("probe", 1)) as answer:
            limits = (await answer.json())["spec"]["containers"][0]["resources"].get("limits", {})
        return "" if (ENFLAME.claims.extender_resource in limits) is called else f"a pod asks for {limits}"

    await until(missing, "the policy holds", deadline_s=60)


def _extender_objects(*sets: str) -> list[JsonObject]:
    values = ("claims.enabled=true", "scheduler.mode=none", "scheduler.verbs=off", *sets)
    return render(EXTENDER_CHART, Rendering(sets=dict(pair.split("=", 1) for pair in values)))


async def install_policies(control_plane: ControlPlane, names: Collection[str], *sets: str) -> None:
    """Create these policies of the extender's chart."""
    wanted = {f"{EXTENDER}-{name}" for name in names}
    for each in _extender_objects(*sets):
        if each["metadata"]["name"] in wanted:
            await control_plane.client.create(_resource(each["kind"]), each)


async def install_extender(control_plane: ControlPlane) -> None:
    """Create the extender's account, its rights with claims, and the policies that bound them; nothing of it runs."""
    await install_policies(control_plane, ("own-templates", "extender-nodes"))
    for each in _extender_objects():
        name, kind = each["metadata"]["name"], each["kind"]
        if name == EXTENDER and kind in (
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
        ):
            prefix = "api/v1" if each["apiVersion"] == "v1" else f"apis/{each['apiVersion']}"
            resource: Resource[JsonObject] = Resource(
                prefix, f"{kind.lower()}s", dict, namespaced="namespace" in each["metadata"]
            )
            await control_plane.client.create(resource, each, namespace=each["metadata"].get("namespace"))


async def start_extender(control_plane: ControlPlane, *flags: str) -> str:
    """Start the extender with its own account, for what it does for claims alone; returns the URL of its page."""
    kubeconfig = await account_kubeconfig(control_plane, EXTENDER)
    command = control_plane.command(
        EXTENDER,
        *(sys.executable, "-m", "gcushare.scheduler_extender", "--kubeconfig", str(kubeconfig)),
        *("--listen-address", "127.0.0.1", "--listen-port", "0", "--page-port", "0", "--log-dir", ""),
        *("--lease-namespace", "kube-system", "--claims", "--verbs", "off", *flags),
        ready=re.compile(r"\blistening\b.*\burl=(\S+)"),
    )
    await control_plane.start(replace(command, ready_lines=2))
    return control_plane.children[EXTENDER].addresses[1]


async def opt_in(client: KubeClient, namespace: str, *, opted: bool = True) -> None:
    """Give a namespace the label, and create it if it does not exist; or take the label from it."""
    labels = OPTED_IN if opted else dict.fromkeys(OPTED_IN)
    try:
        await client.create(NAMESPACES, {"metadata": {"name": namespace, "labels": labels}})
    except GcushareError:
        await client.patch(NAMESPACES, namespace, Patch(PatchKind.MERGE, {"metadata": {"labels": labels}}))


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


async def create_each(client: KubeClient, resource: Resource[Any], bodies: Sequence[Any]) -> None:
    """Create objects of a resource of the whole cluster, or in ``default``, 32 at a time."""
    namespace = "default" if resource.namespaced else None
    await _each(client.create(resource, body, namespace=namespace) for body in bodies)


async def delete_each(client: KubeClient, resource: Resource[Any], objects: Sequence[JsonObject]) -> None:
    """Delete these objects at once, 32 at a time."""
    found = (each["metadata"] for each in objects)
    await _each(client.delete(resource, meta["name"], namespace=meta.get("namespace"), grace_s=0) for meta in found)


async def _each(requests: Iterable[Coroutine[Any, Any, Any]]) -> None:
    limit = asyncio.Semaphore(32)

    async def one(request: Coroutine[Any, Any, object]) -> None:
        async with limit:
            await request

    async with asyncio.TaskGroup() as group:
        for request in requests:
            group.create_task(one(request))


def claim_node(name: str, cards: int = 2, gib: int = 16, vendor: Vendor = ENFLAME) -> JsonObject:
    """Write a Node that serves claims, as its kubelet and the driver publish it; slices are apart."""
    key = vendor.inventory_annotation
    inventory = decode_inventory(node(name, *[gib] * cards, vendor=vendor)["metadata"]["annotations"][key])
    written = encode_inventory(replace(inventory, modes=(SERVES_CLAIMS,)))
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    labels = {"kubernetes.io/hostname": name, "gcushare.io/serve": "claims"}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return {
        "metadata": {"name": name, "labels": labels, "annotations": {key: written}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions},
    }


def slices_of(node: str, cards: int, gib: int, vendor: Vendor = ENFLAME, model: str = "S60") -> list[ResourceSlice]:
    """Write a node's slice as the claims driver does: a claim that names no amount takes a whole card."""

    def device(index: int) -> Device:
        valid = ValidRange(min="1Gi", step="1Gi" if gib > 1 else None)
        policy = RequestPolicy(default=f"{gib}Gi", valid_range=valid)
        return Device(
            name=f"card-{index}",
            attributes={
                "uuid": Attribute(string=f"{node}-{index}"),
                "index": Attribute(int=index),
                "model": Attribute(string=model),
            },
            capacity={MEMORY: Capacity(value=f"{gib}Gi", request_policy=policy)},
            allow_multiple_allocations=True,
        )

    spec = SliceSpec(
        driver=vendor.claims.driver,
        pool=ResourcePool(name=node, generation=1, resource_slice_count=1),
        node_name=node,
        devices=tuple(device(index) for index in range(cards)),
    )
    return [new_slice(ObjectMeta(name=f"{node}-cards"), spec)]


def claim_template(size: ClaimSize) -> JsonObject:
    """Write the template for a size with units of 1 GiB, as the extender makes it."""
    exactly = {
        "deviceClassName": ENFLAME.claims.memory_class,
        "count": size.cards,
        "capacity": {"requests": {MEMORY: f"{size.units}Gi"}},
    }
    spec = {"devices": {"requests": [{"name": "card", "exactly": exactly}]}}
    return {"metadata": {"name": size.template_name(ENFLAME.claims.template_prefix)}, "spec": {"spec": spec}}


def count_used(claims: Iterable[JsonObject], vendor: Vendor = ENFLAME) -> Counter_[tuple[str, int]]:
    """Sum the bytes allocated per node and card, from the claims alone; a whole card counts as -1."""
    used: Counter_[tuple[str, int]] = Counter_()
    for each in claims:
        claim = msgspec.convert(each, ResourceClaim)
        for result in claim.results_of(vendor.claims.driver):
            index = int(result.device.split("-")[1])
            amount = result.consumed_memory()
            used[result.pool, index] += int(parse_quantity(amount)) if amount else 0
    return used
