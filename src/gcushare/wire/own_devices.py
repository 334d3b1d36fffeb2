"""Does a pod choose the visible cards of its containers itself? Its value then replaces the plugin's."""

from __future__ import annotations

from collections.abc import Iterable

from gcushare.vendors import Vendor
from gcushare.wire.objects import Container, KubeObject
from gcushare.wire.pods import card_resources

_NO_CARDS = frozenset({"", "none", "void"})


class VariableSource(KubeObject, frozen=True):
    """A field or another object that a variable's value comes from."""


class Variable(KubeObject, frozen=True):
    """An environment variable; ``value`` is "" if it comes from elsewhere."""

    name: str = ""
    value: str = ""
    value_from: VariableSource | None = None


class ContainerWithVariables(Container, frozen=True):
    env: tuple[Variable, ...] = ()


def describe_own_devices(containers: Iterable[ContainerWithVariables], vendor: Vendor) -> str:
    """Say which containers of a pod with cards choose themselves what they see; "" if none does.

    A container that asks for no card may say that it sees none. What ``envFrom`` brings is not known here.
    """
    name, found = vendor.environment.visible, []
    for container in containers:
        variable = {each.name: each for each in container.env}.get(name)
        if variable is None:
            continue
        amounts = [container.resources.limits.get(resource, 0) for resource in card_resources(vendor)]
        is_none = variable.value_from is None and variable.value in _NO_CARDS
        if not is_none or any(amount not in (0, "0") for amount in amounts):
            value = f"={variable.value[:80]!r}" if variable.value_from is None else " from elsewhere (valueFrom)"
            found.append(f"container {container.name!r} sets {name}{value}")
    if not found:
        return ""
    return f"{'; '.join(found)}: it sees what that names, not the card that the pod was given"
