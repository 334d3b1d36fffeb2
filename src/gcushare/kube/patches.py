"""The bodies of our writes: pure, so that what is sent can be read and tested without a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from gcushare.core.nodes import PodRef
from gcushare.kube.resources import JsonObject


class PatchKind(Enum):
    """How the server applies a patch; the value is its media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch and its kind."""

    kind: PatchKind
    body: object


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must still hold for a write to happen; None asks nothing."""

    uid: str | None = None
    resource_version: str | None = None

    def metadata(self) -> JsonObject:
        """The metadata entries that carry it in a patch."""
        pairs = {"uid": self.uid, "resourceVersion": self.resource_version}
        return {key: value for key, value in pairs.items() if value is not None}


def binding(pod: PodRef, node: str, annotations: Mapping[str, str], resource_version: str = "") -> JsonObject:
    """Build a Binding; the server merges its annotations into the pod in the step that sets the node.

    It is refused where the uid is not the pod's, or the version, if one is given, not its current one.
    Source: ``BindingREST`` in pkg/registry/core/pod/storage, which takes both as preconditions from Kubernetes 1.23 on;
    servers before it read neither.
    """
    metadata: JsonObject = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def eviction(pod: PodRef, version: str) -> JsonObject:
    """Build an Eviction of exactly this pod; ``version`` is that of the group policy."""
    return {
        "apiVersion": f"policy/{version}",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": delete_options(Precondition(uid=pod.uid), None),
    }


def annotations_patch(annotations: Mapping[str, str | None], precondition: Precondition) -> Patch:
    """Set annotations, or remove those whose value is None; all others stay."""
    return Patch(PatchKind.MERGE, {"metadata": {**precondition.metadata(), "annotations": dict(annotations)}})


def capacity_patch(capacity: Mapping[str, int | None]) -> Patch:
    """Set resources in a node's status.capacity, or remove those whose value is None.

    A merge patch: unlike a JSON patch it needs neither the map nor the key to be there, so that it can be repeated.
    """
    amounts = {name: None if amount is None else str(amount) for name, amount in capacity.items()}
    return Patch(PatchKind.MERGE, {"status": {"capacity": amounts}})


def delete_options(precondition: Precondition, grace_s: int | None) -> JsonObject:
    """Build the body of a DELETE."""
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if precondition.metadata():
        options["preconditions"] = precondition.metadata()
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    return options
