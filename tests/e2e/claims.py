"""What claims need on a control plane: policies, kube-controller-manager, the extender, and nodes with slices."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter as Counter_
from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from gcushare.core.cards import SERVES_CLAIMS, Inventory, InventoryCard
from gcushare.core.errors import GcushareError
from gcushare.core.quantities import parse_quantity
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.device_plugin.claims.slice_plan import SlicePlan
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NAMESPACES, Resource
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.contracts import EXTENDER
from gcushare.wire.dra.claim_names import ClaimSize
from gcushare.wire.dra.claims import ResourceClaim, new_template, template_spec
from gcushare.wire.dra.slices import ResourceSlice, new_slice
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.objects import ObjectMeta
from tests.charts import EXTENDER_CHART, of_kind, rendered
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.e2e.installing import account_kubeconfig, kubectl
from tests.e2e.objects import JsonObject, node, pod
from tests.e2e.waiting import until

CONTROLLER_MANAGER = "kube-controller-manager"
TEMPLATES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaimtemplates", dict)
CLAIMS: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaims", dict)
SLICES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceslices", dict, namespaced=False)
OPTED_IN = {"gcushare.io/claims": "enabled"}


def _extender_objects(*sets: str) -> Sequence[JsonObject]:
    return rendered(EXTENDER_CHART, "claims.enabled=true", "scheduler.mode=none", "scheduler.verbs=off", *sets)


async def _apply(control_plane: ControlPlane, objects: Iterable[JsonObject]) -> None:
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    await asyncio.to_thread(kubectl, control_plane, "apply", "--server-side", "-f", "-", stdin=body)


async def try_pod(control_plane: ControlPlane, body: JsonObject, namespace: str = "default") -> tuple[int, JsonObject]:
    """Create a pod as a dry run: what the API server would store, or its refusal."""
    return await try_object(control_plane, "pods", body, namespace)


async def try_object(
    control_plane: ControlPlane, plural: str, body: JsonObject, namespace: str = "default"
) -> tuple[int, JsonObject]:
    """The same for a pod, a claim or a template."""
    group = "api/v1" if plural == "pods" else "apis/resource.k8s.io/v1"
    url = f"{control_plane.url}/{group}/namespaces/{namespace}/{plural}?dryRun=All"
    async with control_plane.http.post(url, json=body) as answer:
        return answer.status, await answer.json()


async def install(control_plane: ControlPlane, *sets: str) -> None:
    """Create the chart's DeviceClasses and policies of claims, and wait until the policies hold in ``default``."""
    objects = _extender_objects(*sets)
    policies = (each for each in objects if each["metadata"]["name"].startswith("gcushare-claims"))
    await _apply(control_plane, [*of_kind(objects, "DeviceClass"), *policies])
    await opt_in(control_plane.client, "default")

    async def missing() -> str:
        status, answer = await try_pod(control_plane, pod("probe", 1, nodeName="nowhere"))
        if status != 422:
            return f"a pod with a node is answered {answer}"
        _, made = await try_pod(control_plane, pod("probe", 1))
        return "" if "resourceClaims" in made.get("spec", {}) else f"a pod is answered {made}"

    await until(missing, "the policies hold", deadline_s=60)


async def call_extender(control_plane: ControlPlane, *, called: bool) -> None:
    """Have the policy mark the pods of claims for the extender, or no longer; returns once it does."""
    objects = _extender_objects(f"claims.callExtender={str(called).lower()}")
    await _apply(control_plane, of_kind(objects, "MutatingAdmissionPolicy"))

    async def missing() -> str:
        _, made = await try_pod(control_plane, pod("probe", 1))
        limits = made["spec"]["containers"][0]["resources"].get("limits", {})
        return "" if (ENFLAME.claims.extender_resource in limits) is called else f"a pod asks for {limits}"

    await until(missing, "the policy holds", deadline_s=60)


async def install_policies(control_plane: ControlPlane, names: Collection[str], *sets: str) -> None:
    """Create these policies of the extender's chart."""
    wanted = {f"{EXTENDER}-{name}" for name in names}
    await _apply(control_plane, (each for each in _extender_objects(*sets) if each["metadata"]["name"] in wanted))


async def install_extender(control_plane: ControlPlane) -> None:
    """Create the extender's account, its rights with claims, and the policies that bound them; nothing of it runs."""
    await install_policies(control_plane, ("own-templates", "extender-nodes"))
    account = of_kind(_extender_objects(), "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    await _apply(control_plane, (each for each in account if each["metadata"]["name"] == EXTENDER))


async def start_extender(control_plane: ControlPlane, *flags: str) -> None:
    """Start the extender with its own account, for what it does for claims alone."""
    kubeconfig = await account_kubeconfig(control_plane, EXTENDER)
    command = control_plane.command(
        EXTENDER,
        *(sys.executable, "-m", "gcushare.scheduler_extender", "--kubeconfig", str(kubeconfig)),
        *("--listen-address", "127.0.0.1", "--listen-port", "0", "--page-port", "0", "--log-dir", ""),
        *("--lease-namespace", "kube-system", "--claims", "--verbs", "off", *flags),
        ready=re.compile(r"\blistening\b.*\burl=(\S+)"),
    )
    await control_plane.start(replace(command, ready_lines=2))


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


def _inventory(node: str, cards: int, gib: int, vendor: Vendor, model: str) -> Inventory:
    return Inventory(
        unit=parse_memory_unit(vendor.default_unit),
        cards=tuple(
            InventoryCard(index=index, uuid=f"{node}-{index}", memory_bytes=gib * GIB, units=gib, model=model)
            for index in range(cards)
        ),
        modes=(SERVES_CLAIMS,),
    )


def claim_node(name: str, cards: int = 2, gib: int = 16, vendor: Vendor = ENFLAME) -> JsonObject:
    """Write a Node that serves claims, as its kubelet and the driver publish it; slices are apart."""
    body = node(name, vendor=vendor)
    inventory = encode_inventory(_inventory(name, cards, gib, vendor, ""))
    body["metadata"]["annotations"] = {vendor.inventory_annotation: inventory}
    body["metadata"]["labels"] = {"kubernetes.io/hostname": name, "gcushare.io/serve": "claims"}
    for resource in (vendor.memory_resource, vendor.count_resource):
        del body["status"]["allocatable"][resource]
    return body


def slices_of(node: str, cards: int, gib: int, vendor: Vendor = ENFLAME, model: str = "S60") -> list[ResourceSlice]:
    """Build a node's slice as the claims driver does."""
    spec = SlicePlan(vendor, node).build(_inventory(node, cards, gib, vendor, model), range(cards))
    return [new_slice(ObjectMeta(name=f"{node}-cards"), spec)]


def claim(name: str, amount: str = "", kind: str = ENFLAME.claims.memory_class, **exactly: Any) -> JsonObject:
    """Write a claim of one request as a person does; ``kind`` is its DeviceClass."""
    request = {"deviceClassName": kind, **exactly}
    if amount:
        request["capacity"] = {"requests": {"memory": amount}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "card", "exactly": request}]}}}


def claim_template(size: ClaimSize) -> JsonObject:
    """Write the template for a size with units of 1 GiB, as the extender makes it."""
    name = size.template_name(ENFLAME.claims.template_prefix)
    spec = template_spec(size, ENFLAME, parse_memory_unit("1"))
    found: JsonObject = msgspec.to_builtins(new_template(name, "", {}, spec))
    return found


def count_used(claims: Iterable[JsonObject], vendor: Vendor = ENFLAME) -> Counter_[tuple[str, int]]:
    """Sum the bytes allocated per node and card, from the claims alone."""
    used: Counter_[tuple[str, int]] = Counter_()
    for each in claims:
        claim = msgspec.convert(each, ResourceClaim)
        for result in claim.results_of(vendor.claims.driver):
            used[result.pool, int(result.device.split("-")[1])] += int(parse_quantity(result.consumed_memory() or "0"))
    return used
