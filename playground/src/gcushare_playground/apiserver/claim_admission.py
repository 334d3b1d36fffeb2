"""What the admission policies of claims make of a pod: its memory request becomes a claim on one card.

A double of the policies' text in the extender's chart, as no maintained library of this language evaluates Kubernetes'
CEL. ``tests/e2e/test_claims_admission.py`` compares the two on a real API server, but for the words of refusals. A
namespace opts in by its label; the policies themselves are not objects here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gcushare.core.placement import POLICIES
from gcushare.core.requests import ContainerKind, effective_request
from gcushare.vendors import VENDORS
from gcushare.vendors.vendor import Vendor
from gcushare.wire import annotations as keys
from gcushare.wire.contracts import CLAIMS_ENABLED, CLAIMS_LABEL, CLAIMS_ORDER_LABEL
from gcushare.wire.dra.claim_names import MAX_UNITS, ClaimSize
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.objects import JsonObject, annotations_of, dig, metadata
from gcushare_playground.apiserver.quantities import parse

_UNKEPT = (keys.USE_CARDS, keys.AVOID_CARDS, keys.MEMORY_LIMIT, keys.CARDS_LINKED, keys.APART)
_KEPT_POLICIES = {keys.NODE_POLICY: tuple(POLICIES), keys.CARD_POLICY: ("binpack",)}


def admit_claims(pod: JsonObject, namespace_labels: Mapping[str, str]) -> None:
    """Change a pod that is being created, in place; a pod that asks for no memory, or that did not opt in, stays.

    Raises:
        ApiFailure: 422, a claim cannot hold what the pod asks for.
    """
    if namespace_labels.get(CLAIMS_LABEL) == CLAIMS_ENABLED:
        for vendor in VENDORS:
            _admit(pod, vendor)


def _admit(pod: JsonObject, vendor: Vendor) -> None:
    spec, options, memory = pod["spec"], annotations_of(pod), vendor.memory_resource
    every = [*(spec.get("initContainers") or []), *spec["containers"]]
    limits, requests = ([dig(each, "resources", part, default={}) for each in every] for part in ("limits", "requests"))
    amounts = {each["name"]: parse(str(limit.get(memory, "0"))) for each, limit in zip(every, limits, strict=True)}
    is_valid = all(each.is_integer and each.value >= 0 for each in amounts.values())
    is_equal = all(
        parse(str(a.get(memory, "0"))) == parse(str(b.get(memory, "0"))) for a, b in zip(limits, requests, strict=True)
    )
    if not (is_valid and is_equal and any(each.value for each in amounts.values())):
        return  # Kubernetes itself refuses such amounts afterwards
    units = {name: int(each.value) for name, each in amounts.items()}
    if not _can_hold(pod, vendor, units, limits):
        policy = f"ValidatingAdmissionPolicy 'gcushare-claims-{vendor.name}' denied request"
        raise ApiFailure(422, "Invalid", f'pods "{metadata(pod)["name"]}" is forbidden: {policy}')
    total, cards = _total(spec, units), int(options.get(keys.CARDS, "1"))
    template = ClaimSize(total // cards, cards).template_name(vendor.claims.template_prefix)
    entry = f"gcushare-{vendor.claims.template_prefix}"
    spec.setdefault("resourceClaims", []).append({"name": entry, "resourceClaimTemplateName": template})
    metadata(pod)["annotations"] = {
        **options,
        keys.CLAIMED_RESOURCE: memory,
        keys.CLAIMED_UNITS: ",".join(f"{name}={amount}" for name, amount in units.items() if amount),
    }
    for container in every:
        resources = container["resources"]
        if units[container["name"]]:
            resources.setdefault("claims", []).append({"name": entry})
        for part in ("limits", "requests"):
            left = {name: text for name, text in (resources.pop(part, None) or {}).items()
                    if name not in (memory, vendor.count_resource)}  # fmt: skip
            if left:
                resources[part] = left
    if options.get(keys.NODE_POLICY) != "spread":
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        preferred = affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
        for level in range(1, 10):
            wanted = {"key": CLAIMS_ORDER_LABEL, "operator": "In", "values": [str(level)]}
            preferred.append({"weight": level * 10, "preference": {"matchExpressions": [wanted]}})


def _can_hold(pod: JsonObject, vendor: Vendor, units: Mapping[str, int], limits: Sequence[JsonObject]) -> bool:
    """Whether a claim can hold what the pod asks for."""
    spec, options = pod["spec"], annotations_of(pod)
    cards, entry = options.get(keys.CARDS, "1"), f"gcushare-{vendor.claims.template_prefix}"
    return (
        max(_total(spec, units), *units.values()) <= MAX_UNITS
        and all(vendor.whole_card_resource not in each for each in limits)
        and all(str(each.get(vendor.count_resource, "1")) == "1" for each in limits)
        and cards in map(str, range(1, 17))
        and all(amount % int(cards) == 0 for amount in units.values())
        and not any(key in options for key in _UNKEPT)
        and all(options.get(key, kept[0]) in kept for key, kept in _KEPT_POLICIES.items())
        and not spec.get("nodeName")
        and all(each.get("name") != entry for each in spec.get("resourceClaims") or [])
    )


def _total(spec: JsonObject, units: Mapping[str, int]) -> int:
    """What the pod holds at its peak."""
    amounts = []
    for container in spec.get("initContainers") or []:
        is_sidecar = container.get("restartPolicy") == "Always"
        amounts.append((ContainerKind.SIDECAR if is_sidecar else ContainerKind.INIT, units[container["name"]]))
    amounts += [(ContainerKind.APP, units[container["name"]]) for container in spec["containers"]]
    return effective_request(amounts)
