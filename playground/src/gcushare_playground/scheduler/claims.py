"""Resource claims as kube-scheduler allocates them: the first device that fits, of complete pools, in order of slices.

Source: pkg/scheduler/framework/plugins/dynamicresources and k8s.io/dynamic-resource-allocation/structured. Slices and
claims are listed for every pod that has claims, so what was allocated before is always known. Of a DeviceClass the one
selector is evaluated that names the driver; of constraints the distinct attribute.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gcushare.core.errors import NotFoundError, RemoteContractError
from gcushare.core.quantities import parse_count
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import Resource
from gcushare.wire.dra.slices import quantity
from gcushare_playground.amounts import JsonObject
from gcushare_playground.scheduler.objects import PodInfo

_CLAIMS: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaims", dict)
_SLICES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceslices", dict, namespaced=False)
_CLASSES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "deviceclasses", dict, namespaced=False)
_BY_DRIVER = re.compile(r"device\.driver == '([^']+)'")


@dataclass(frozen=True)
class Device:
    driver: str
    pool: str
    node: str
    spec: JsonObject

    @cached_property
    def key(self) -> tuple[str, str, str]:
        return self.driver, self.pool, str(self.spec["name"])


@dataclass(frozen=True, slots=True)
class ClaimsView:
    """One pod's claims, and what there is to allocate for them, when its attempt began."""

    claims: tuple[JsonObject, ...]
    drivers: dict[str, str]
    """By device class."""
    devices: tuple[Device, ...]
    held: Counter[tuple[str, str, str]]
    """Bytes that allocated claims consume of each device."""
    new_uid: Callable[[], str] = lambda: str(uuid.uuid4())

    def allocate(self, node: str) -> list[list[JsonObject]] | None:
        """The results for each claim on a node; None if they do not all fit there."""
        held, found = Counter(self.held), []
        for claim in self.claims:
            results = _results_of(claim) or list(self._fit(claim, node, held))
            if len(results) < _count_of(claim) or any(self._node_of(each) != node for each in results):
                return None
            found.append(results)
        return found

    def _fit(self, claim: JsonObject, node: str, held: Counter[tuple[str, str, str]]) -> Iterator[JsonObject]:
        spec = claim["spec"]["devices"]
        is_distinct = any("distinctAttribute" in each for each in spec.get("constraints") or [])
        for request in spec["requests"]:
            exactly, taken = request["exactly"], set[tuple[str, str, str]]()
            wanted = exactly.get("capacity", {}).get("requests", {}).get("memory")
            driver = self.drivers[exactly["deviceClassName"]]
            for _ in range(exactly.get("count", 1)):
                for device in self.devices:
                    if device.node != node or device.driver != driver or device.spec.get("taints"):
                        continue
                    if is_distinct and device.key in taken:
                        continue
                    capacity = device.spec["capacity"]["memory"]
                    amount = _rounded(wanted, capacity.get("requestPolicy") or {"default": capacity["value"]})
                    if held[device.key] + amount <= _count(capacity["value"]):
                        held[device.key] += amount
                        taken.add(device.key)
                        yield {
                            "request": request["name"],
                            "driver": device.driver,
                            "pool": device.pool,
                            "device": device.spec["name"],
                            "consumedCapacity": {"memory": quantity(amount)},
                            "shareID": self.new_uid(),
                        }
                        break

    def _node_of(self, result: JsonObject) -> str:
        key = (result["driver"], result["pool"], result["device"])
        return next((each.node for each in self.devices if each.key == key), "")


async def read_claims(client: KubeClient, pod: PodInfo) -> ClaimsView | None:
    """Read a pod's claims and the slices; None if a claim is not made yet.

    Raises:
        GcushareError: the API server did not answer, or a device class says what is not evaluated here.
    """
    statuses = pod.raw.get("status", {}).get("resourceClaimStatuses") or []
    made = {each["name"]: each.get("resourceClaimName", "") for each in statuses}
    claims, drivers = [], {}
    for entry in pod.spec["resourceClaims"]:
        name = entry.get("resourceClaimName") or made.get(entry["name"], "")
        try:
            claims.append(await client.get(_CLAIMS, name, namespace=pod.namespace) if name else {})
        except NotFoundError:
            return None
        if not claims[-1]:
            return None
        for request in claims[-1]["spec"]["devices"]["requests"]:
            class_name = request["exactly"]["deviceClassName"]
            selectors = (await client.get(_CLASSES, class_name))["spec"].get("selectors") or []
            match = _BY_DRIVER.fullmatch(selectors[0]["cel"]["expression"]) if len(selectors) == 1 else None
            if match is None:
                raise RemoteContractError(
                    f"DeviceClass {class_name!r}: one selector device.driver == 'NAME' is accepted"
                )
            drivers[class_name] = match[1]
    held = held_by(await client.list_all(_CLAIMS))
    return ClaimsView(tuple(claims), drivers, tuple(devices_of(await client.list_all(_SLICES))), held)


async def write_allocation(client: KubeClient, view: ClaimsView, pod: PodInfo, node: str) -> None:
    """Write into each claim what it was allocated, and that the pod may use it.

    Raises:
        GcushareError: a claim was changed meanwhile, or the API server did not answer.
    """
    for claim, results in zip(view.claims, view.allocate(node) or [], strict=True):
        status = allocated_status(claim, results, pod.name, pod.uid)
        metadata = {"resourceVersion": claim["metadata"]["resourceVersion"]}
        await client.patch(
            _CLAIMS,
            claim["metadata"]["name"],
            Patch(PatchKind.MERGE, {"metadata": metadata, "status": status}),
            namespace=pod.namespace,
            subresource="status",
        )


def allocated_status(claim: JsonObject, results: list[JsonObject], pod: str, uid: str) -> JsonObject:
    """The status of a claim that has these results, and that a pod may use."""
    users = claim.get("status", {}).get("reservedFor") or []
    user = {"resource": "pods", "name": pod, "uid": uid}
    return {
        "allocation": {"devices": {"results": results}},
        "reservedFor": users if user in users else [*users, user],
    }


def held_by(claims: Iterable[JsonObject]) -> Counter[tuple[str, str, str]]:
    """The bytes that claims hold of each device, by driver, pool and device."""
    held: Counter[tuple[str, str, str]] = Counter()
    for claim in claims:
        for result in _results_of(claim):
            amount = _count(result["consumedCapacity"]["memory"])
            held[result["driver"], result["pool"], result["device"]] += amount
    return held


def _results_of(claim: JsonObject) -> list[JsonObject]:
    allocation = claim.get("status", {}).get("allocation") or {}
    return allocation.get("devices", {}).get("results") or []


def _count_of(claim: JsonObject) -> int:
    return sum(each["exactly"].get("count", 1) for each in claim["spec"]["devices"]["requests"])


def devices_of(slices: list[JsonObject]) -> Iterator[Device]:
    """The devices of every pool's newest generation, if all of its slices are there; slices in the order of names."""
    pools: defaultdict[tuple[str, str], list[JsonObject]] = defaultdict(list)
    for spec in (each["spec"] for each in sorted(slices, key=lambda each: str(each["metadata"]["name"]))):
        pools[spec["driver"], spec["pool"]["name"]].append(spec)
    for (driver, pool), specs in pools.items():
        newest = max(each["pool"].get("generation", 0) for each in specs)
        current = [each for each in specs if each["pool"].get("generation", 0) == newest]
        if len(current) == current[0]["pool"]["resourceSliceCount"]:
            for spec in current:
                yield from (Device(driver, pool, spec.get("nodeName", ""), each) for each in spec.get("devices") or [])


@lru_cache(maxsize=1024)
def _count(text: str) -> int:
    return parse_count(text)


def _rounded(wanted: str | None, policy: JsonObject) -> int:
    """The amount that a claim consumes: the default, or what it wants, rounded up to a step above the least."""
    if wanted is None or "validRange" not in policy:
        return _count(policy["default"])
    least, step = (_count(policy["validRange"].get(word, "1")) for word in ("min", "step"))
    return least + max(0, -(-(_count(wanted) - least) // step)) * step
