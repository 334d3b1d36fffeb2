"""The rights that a whole examination needs, and asking the API server which of them the caller lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gcushare.cli.doctor.facts import Area, Unread
from gcushare.core.errors import GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import Resource

_REVIEWS: Resource[dict[str, Any]] = Resource(
    "apis/authorization.k8s.io/v1", "selfsubjectaccessreviews", dict, namespaced=False
)
_ADMISSION = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One right; ``namespace`` empty means everywhere."""

    part: Area
    verb: str
    resource: str
    group: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}{where}"

    def review(self) -> dict[str, Any]:
        """The question whether the caller has it."""
        resource, _, subresource = self.resource.partition("/")
        wanted = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
        }
        attributes = {key: value for key, value in wanted.items() if value}
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }

    def missing(self) -> Unread:
        """What it means to lack it."""
        return Unread(self.part, "the right is missing", str(self))


def needed_rights(namespace: str) -> tuple[Right, ...]:
    """Everything that is read; ``namespace`` is where the extender is installed."""
    return (
        Right(part=Area.NODES, verb="list", resource="nodes"),
        Right(part=Area.PODS, verb="list", resource="pods"),
        Right(part=Area.PLUGINS, verb="get", resource="pods/proxy", namespace=namespace),
        Right(part=Area.EXTENDER, verb="get", resource="services/proxy", namespace=namespace),
        Right(part=Area.SERVICE, verb="get", resource="services", namespace=namespace),
        Right(part=Area.CONFIG_MAPS, verb="get", resource="configmaps", namespace=namespace),
        Right(part=Area.LEASES, verb="get", resource="leases", group="coordination.k8s.io", namespace=namespace),
        Right(
            part=Area.NODE_LEASES,
            verb="list",
            resource="leases",
            group="coordination.k8s.io",
            namespace="kube-node-lease",
        ),
        Right(part=Area.POLICIES, verb="list", resource="validatingadmissionpolicies", group=_ADMISSION),
        Right(part=Area.POLICIES, verb="list", resource="validatingadmissionpolicybindings", group=_ADMISSION),
        Right(part=Area.SECRETS, verb="get", resource="secrets", namespace=namespace),
    )


async def find_missing(client: KubeClient, rights: Sequence[Right]) -> list[Right]:
    """Ask which rights the caller lacks; where the API server gives no answer, the attempt itself will tell."""

    async def is_missing(right: Right) -> bool:
        try:
            answer = await client.create(_REVIEWS, right.review())
        except GcushareError:
            return False
        status = answer.get("status")
        return isinstance(status, dict) and status.get("allowed") is False

    answers = await asyncio.gather(*(is_missing(right) for right in rights))
    return [right for right, missing in zip(rights, answers, strict=True) if missing]
