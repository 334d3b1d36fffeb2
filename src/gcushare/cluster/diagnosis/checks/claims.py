"""Do nodes that serve claims have correct slices, and do pods of the cluster get claims?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gcushare.cluster.diagnosis.checks.views import VendorNode, vendor_nodes
from gcushare.cluster.diagnosis.facts import ClaimsFacts, Facts
from gcushare.cluster.diagnosis.findings import Finding, error, warning
from gcushare.cluster.rights import Area
from gcushare.core.cards import SERVES_CLAIMS, Inventory
from gcushare.core.wording import some_names
from gcushare.vendors import Vendor
from gcushare.wire.dra.claim_names import device_name, unit_bytes
from gcushare.wire.dra.device_classes import rival_classes
from gcushare.wire.dra.slices import MEMORY, Device, quantity
from gcushare.wire.kubernetes_versions import find_release, release_text

FIRST_WITH_SHARES = (1, 36)
"""The scheduler shares a device among claims by default from here on (the gate DRAConsumableCapacity)."""


def check_claims_kubelets(facts: Facts) -> Iterator[Finding]:
    """Nodes that are labelled for claims with a kubelet that cannot share a card among claims."""
    for each in vendor_nodes(facts) if facts.claims is not None else ():
        if not (each.serves_claims and each.is_labelled):
            continue
        version = each.node.status.node_info.kubelet_version
        if (release := find_release(version)) is not None and release < FIRST_WITH_SHARES:
            yield _too_old(each.subject, f"its kubelet is {version}", "upgrade the kubelet, or serve resources here")


def check_claims_slices(facts: Facts) -> Iterator[Finding]:
    """Slices that differ from the inventory, from which all our figures are counted."""
    if facts.claims is None or not facts.knows(Area.CLAIMS):
        return
    for each in vendor_nodes(facts):
        inventory = each.inventory
        if each.plugin is None or each.plugin.status is None or each.plugin_problems or inventory is None:
            continue  # The plugin says why.
        if SERVES_CLAIMS not in inventory.modes:
            continue
        wanted = _wanted(inventory)
        devices = _devices(facts.claims, each)
        found = {name: each.capacity[MEMORY].value for name, each in devices.items() if MEMORY in each.capacity}
        if unshared := sorted(name for name, device in devices.items() if not device.allow_multiple_allocations):
            yield each.error(
                "claims-gate-off",
                f"the API server dropped allowMultipleAllocations of {some_names(unshared)}: cards cannot be shared",
                "turn the feature gate DRAConsumableCapacity on in kube-apiserver and kube-scheduler",
            )
        elif differing := sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)):
            name = differing[0]
            yield each.error(
                "claims-slices-differ",
                f"its ResourceSlices and its inventory differ in {some_names(differing)}: {name} has "
                f"{found.get(name, 'no slice')} there and {wanted.get(name, 'no card')} here",
                "restart the plugin's pod; if it stays, see its log for what the API server answered",
            )


def _wanted(inventory: Inventory) -> dict[str, str]:
    step = unit_bytes(inventory.unit)
    return {device_name(card.index): quantity(card.units * step) for card in inventory.cards if card.units}


def _devices(claims: ClaimsFacts, node: VendorNode) -> dict[str, Device]:
    """The devices of a node's newest slices, by name."""
    driver = node.vendor.claims.driver
    slices = [each.spec for each in claims.slices if each.spec.driver == driver and each.spec.pool.name == node.name]
    newest = max((spec.pool.generation for spec in slices), default=0)
    return {device.name: device for spec in slices if spec.pool.generation == newest for device in spec.devices}


def check_claims_cluster(facts: Facts) -> Iterator[Finding]:
    """What the cluster needs once: a release with shared devices, DeviceClasses, the policy, the extender."""
    claims = facts.claims
    if claims is None:
        return
    release = find_release(facts.server_version)
    if release is not None and release < FIRST_WITH_SHARES:
        yield _too_old("cluster", f"the API server is {facts.server_version}", "upgrade, or serve resources alone")
    if facts.knows(Area.CLAIMS):
        for vendor in facts.vendors():
            yield from _check_vendor(claims, vendor)
    if not claims.are_kept and facts.knows(Area.PODS):
        yield error(
            "extender-without-claims",
            "cluster",
            "no pod runs gcushare-scheduler-extender with --claims: the templates that pods name are not made, and "
            "they stay Pending",
            "install with global.claims.enabled=true, or see the events of its Deployment",
        )


def _check_vendor(claims: ClaimsFacts, vendor: Vendor) -> Iterator[Finding]:
    names = vendor.claims
    wanted = {names.memory_class: "", names.whole_class: vendor.whole_card_resource}
    for name, resource in wanted.items():
        if name not in claims.classes:
            problem = "there is no such DeviceClass: claims of it stay unallocated"
        elif claims.classes[name] != resource:
            problem = f"it stands for {claims.classes[name] or 'no resource'}, not for {resource or 'none'}"
        else:
            continue
        yield error(
            "device-class-missing",
            f"DeviceClass {name}",
            problem,
            "install with global.claims.enabled=true, or upgrade",
        )
    yield from find_rivals(claims.classes, vendor)
    entry = f"gcushare-{names.template_prefix}"
    naming = [policy for policy in claims.policies if entry in policy.text]
    if not any(policy.denies for policy in naming):
        what = f"policy {naming[0].name} has no binding" if naming else "there is none"
        yield warning(
            "claims-policy-missing",
            f"vendor {vendor.name}",
            f"no MutatingAdmissionPolicy turns {vendor.memory_resource} of pods into claims: {what}",
            "install with claims.convertPods=true, or write the claims into the pods",
        )


def find_rivals(resources: Mapping[str, str], vendor: Vendor) -> Iterator[Finding]:
    """Find the DeviceClasses that take the place of ours; ``resources``: what each class stands for, by its name."""
    ours, resource = vendor.claims.whole_class, vendor.whole_card_resource
    for name in rival_classes(resources, vendor):
        yield error(
            "device-class-rival",
            f"DeviceClass {name}",
            f"it stands for {resource}, as {ours} does: kube-scheduler takes one of them, and pods that ask for that "
            "resource may get no card of gcushare, or wait",
            f"take extendedResourceName out of it, or out of {ours} if another driver needs it; then write ours again, "
            "which kube-scheduler has forgotten: "
            f"kubectl annotate --overwrite deviceclass {ours} again=$(date +%s)",
        )


def check_quotas(facts: Facts) -> Iterator[Finding]:
    """Quotas on memory in namespaces whose pods get claims in its place: they count nothing any more."""
    claims = facts.claims if facts.claims is not None else ClaimsFacts()
    for quota in (each for each in claims.quotas if each.metadata.namespace in claims.namespaces):
        for vendor in facts.vendors():
            resource, units = f"requests.{vendor.memory_resource}", f"requests.{vendor.claims.extender_resource}"
            cards = f"{vendor.claims.memory_class}.deviceclass.resource.k8s.io/devices"
            if resource in quota.spec.hard and not {cards, units} & quota.spec.hard.keys():
                yield warning(
                    "quota-counts-nothing",
                    f"ResourceQuota {quota.metadata.namespace}/{quota.metadata.name}",
                    f"it bounds {resource}, and pods of that namespace get claims, which it does not count",
                    f"bound {cards} (cards that claims share in), or {units} (units; with claims.callExtender)",
                )


def check_limit_ranges(facts: Facts) -> Iterator[Finding]:
    """LimitRanges on a resource that the policy takes out of pods, so that Kubernetes asks for it in vain."""
    claims = facts.claims
    if claims is None or not facts.knows(Area.CLAIMS):
        return
    for each in claims.limit_ranges:
        if each.metadata.namespace not in claims.namespaces:
            continue
        subject = f"LimitRange {each.metadata.namespace}/{each.metadata.name}"
        for vendor in facts.vendors():
            resource = vendor.memory_resource
            for item in each.spec.limits:
                if resource in item.min or (item.type == "Pod" and resource in item.max):
                    what = f"{'min' if resource in item.min else 'max'} of {resource} for each {item.type}"
                    problem = f"it has a {what}: pods get claims in place of that resource, and are refused"
                    remedy = (
                        "take it out; admission.pods.maxUnits of the extender's chart bounds claims too, as quotas do"
                    )
                    yield error("limit-range", subject, problem, remedy)


def _too_old(subject: str, found: str, remedy: str) -> Finding:
    needed = release_text(FIRST_WITH_SHARES)
    problem = f"{found}, and claims share cards from {needed} on"
    return error("claims-kubernetes-too-old", subject, problem, remedy)
