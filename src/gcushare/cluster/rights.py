"""The rights that an examination of a cluster needs, and the parts of it that could not be read."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

_ADMISSION, _COORDINATION = "admissionregistration.k8s.io", "coordination.k8s.io"
_DRA = "resource.k8s.io"


class Area(enum.Enum):
    """A part of a cluster that is read by itself; the value says what is checked with it."""

    NODES = "nodes, their inventories and capacities"
    PODS = "pods, their records and our programs"
    PLUGINS = "what the device plugins and the kubelets say"
    EXTENDER = "the scheduler extender and its calls"
    SERVICE = "the address that the scheduler has to call"
    CONFIG_MAPS = "how the schedulers are configured"
    LEASES = "who leads the extenders"
    POLICIES = "whether records are protected from pods' authors"
    SECRETS = "when certificates end"
    SLICES = "which other drivers offer the cards of nodes"
    CLAIMS = "slices, DeviceClasses, templates and policies of claims, and namespaces"


@dataclass(frozen=True, slots=True)
class Unread:
    """A part that could not be read, and why."""

    part: Area
    problem: str
    lacks_right: bool = False


@dataclass(frozen=True, slots=True)
class Right:
    """A right that a part needs; an empty ``namespace`` means all namespaces."""

    part: Area
    verb: str
    resource: str
    namespace: str = ""
    group: str = ""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}{where}"

    def review(self) -> dict[str, Any]:
        """Return the SelfSubjectAccessReview that asks whether the caller has it."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
        }
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }


CLAIMS_RIGHTS = (
    Right(Area.CLAIMS, "list", "resourceslices", group=_DRA),
    Right(Area.CLAIMS, "list", "deviceclasses", group=_DRA),
    Right(Area.CLAIMS, "list", "resourceclaimtemplates", group=_DRA),
    Right(Area.CLAIMS, "list", "mutatingadmissionpolicies", group=_ADMISSION),
    Right(Area.CLAIMS, "list", "mutatingadmissionpolicybindings", group=_ADMISSION),
    Right(Area.CLAIMS, "list", "namespaces"),
)
"""What an examination uses in addition to ``needed_rights`` if nodes serve claims."""


def needed_rights(namespace: str) -> tuple[Right, ...]:
    """Every right that an examination uses; ``namespace`` is the extender's."""
    return (
        Right(Area.NODES, "list", "nodes"),
        Right(Area.PODS, "list", "pods"),
        Right(Area.PLUGINS, "get", "pods/proxy", namespace),
        Right(Area.EXTENDER, "get", "services/proxy", namespace),
        Right(Area.SERVICE, "get", "services", namespace),
        Right(Area.CONFIG_MAPS, "get", "configmaps", namespace),
        Right(Area.LEASES, "get", "leases", namespace, _COORDINATION),
        Right(Area.POLICIES, "list", "validatingadmissionpolicies", group=_ADMISSION),
        Right(Area.POLICIES, "list", "validatingadmissionpolicybindings", group=_ADMISSION),
        Right(Area.SECRETS, "get", "secrets", namespace),
        Right(Area.SLICES, "list", "resourceslices", group=_DRA),
    )
