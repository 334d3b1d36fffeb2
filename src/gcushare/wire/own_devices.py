"""Does a pod choose the visible cards of its containers itself? Its value then replaces the plugin's.

What ``envFrom`` and the image bring is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable

from gcushare.vendors import Vendor
from gcushare.wire.contracts import NAMESPACE, VENDOR_LABEL
from gcushare.wire.objects import Container, KubeObject, Pod
from gcushare.wire.pods import card_resources

_NO_CARDS = frozenset({"", "none", "void"})


class Variable(KubeObject, frozen=True):
    """An environment variable; ``value`` is "" if it comes from elsewhere: ``value_from`` only counts as present."""

    name: str = ""
    value: str = ""
    value_from: KubeObject | None = None


class ContainerWithVariables(Container, frozen=True):
    env: tuple[Variable, ...] = ()


def describe_own_devices(containers: Iterable[ContainerWithVariables], vendor: Vendor) -> str:
    """Say which containers of a pod with cards choose themselves what they see; "" if none does.

    A container that asks for no card may say that it sees none.
    """
    found = _own_devices(containers, vendor)
    return f"{found}: it sees what that names, not the card that the pod was given" if found else ""


def describe_free_ride(pod: Pod, containers: Iterable[ContainerWithVariables], vendor: Vendor) -> str:
    """Say which containers see cards though their pod asks for none; "" if none does.

    Pods of the system, of the vendor's own tools and of ours may.
    """
    may_see = pod.metadata.namespace in (NAMESPACE, *vendor.tool_namespaces) or VENDOR_LABEL in pod.metadata.labels
    resources = (*card_resources(vendor), vendor.count_resource)
    every = (*pod.spec.init_containers, *pod.spec.containers)
    asks = pod.spec.resource_claims or any(each.resources.asks_for(name) for each in every for name in resources)
    if may_see or asks:
        return ""
    found = _own_devices(containers, vendor)
    return f"{found}, and the pod asks for no card: it sees those of other pods" if found else ""


def _own_devices(containers: Iterable[ContainerWithVariables], vendor: Vendor) -> str:
    name, found = vendor.environment.visible, []
    for container in containers:
        variable = {each.name: each for each in container.env}.get(name)
        if variable is None:
            continue
        is_none = variable.value_from is None and variable.value in _NO_CARDS
        if not is_none or any(container.resources.asks_for(resource) for resource in card_resources(vendor)):
            value = f"={variable.value[:80]!r}" if variable.value_from is None else " from elsewhere (valueFrom)"
            found.append(f"container {container.name!r} sets {name}{value}")
    return "; ".join(found)
