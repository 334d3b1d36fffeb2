"""Reads what nodes that serve claims need: their drivers, slices, DeviceClasses, policies, templates and namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from gcushare.cluster.diagnosis.cluster_objects import JsonObject
from gcushare.cluster.diagnosis.facts import ClaimsFacts, PluginFacts, PolicyFacts
from gcushare.cluster.programs import SeenPod, flag
from gcushare.cluster.reader import Reader
from gcushare.cluster.rights import CLAIMS_RIGHTS, Area
from gcushare.kube.resources import LEASES, NAMESPACES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, Resource
from gcushare.wire.contracts import CLAIMS_CONTROLLER, CLAIMS_ENABLED, CLAIMS_LABEL, SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.objects import Lease, Node

T = TypeVar("T")

_ADMISSION = "apis/admissionregistration.k8s.io/v1"
_POLICIES: Resource[JsonObject] = Resource(_ADMISSION, "mutatingadmissionpolicies", dict, namespaced=False)
_BINDINGS: Resource[JsonObject] = Resource(_ADMISSION, "mutatingadmissionpolicybindings", dict, namespaced=False)
_CLASSES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "deviceclasses", dict, namespaced=False)


async def read_claims(
    reader: Reader, nodes: Iterable[Node], drivers: Sequence[PluginFacts], controllers: Sequence[SeenPod]
) -> ClaimsFacts | None:
    """Read them; None in a cluster without nodes that serve claims, where nobody needs the rights to read them."""
    labelled = any(node.metadata.labels.get(SERVE_LABEL) == SERVE_CLAIMS for node in nodes)
    if not (labelled or drivers or controllers):
        return None

    await reader.find_missing(CLAIMS_RIGHTS)

    async def read(resource: Resource[T]) -> list[T]:
        nothing: list[T] = []
        return await reader.attempt(Area.CLAIMS, lambda: reader.client.list_all(resource), nothing)

    pod = controllers[0] if controllers else None
    lease_name = (flag(pod, "lease-name") if pod is not None else None) or CLAIMS_CONTROLLER
    lease_namespace = (flag(pod, "lease-namespace") if pod is not None else None) or "kube-system"
    no_lease: Lease | None = None
    get_lease = partial(reader.client.get, LEASES, lease_name, namespace=lease_namespace)
    objects, slices, templates, lease = await asyncio.gather(
        asyncio.gather(read(_CLASSES), read(_POLICIES), read(_BINDINGS), read(NAMESPACES)),
        read(RESOURCE_SLICES),
        read(RESOURCE_CLAIM_TEMPLATES),
        reader.attempt(Area.LEASES, get_lease, no_lease),
    )
    classes, policies, bindings, namespaces = objects
    bound = {str((each.get("spec") or {}).get("policyName", "")) for each in bindings}
    return ClaimsFacts(
        drivers=tuple(drivers),
        controllers=tuple(controllers),
        slices=tuple(slices),
        classes={_name(each): str((each.get("spec") or {}).get("extendedResourceName", "")) for each in classes},
        policies=tuple(
            PolicyFacts(
                name=_name(each), text=msgspec.json.encode(each.get("spec")).decode(), denies=_name(each) in bound
            )
            for each in policies
        ),
        templates=frozenset((each.metadata.namespace, each.metadata.name) for each in templates),
        namespaces=frozenset(
            _name(each)
            for each in namespaces
            if ((each.get("metadata") or {}).get("labels") or {}).get(CLAIMS_LABEL) == CLAIMS_ENABLED
        ),
        lease=lease,
    )


def _name(found: JsonObject) -> str:
    return str((found.get("metadata") or {}).get("name", ""))
