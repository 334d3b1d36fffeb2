"""Builds the bodies of our writes, without I/O, so that they can be tested without a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from gcushare.core.assignments import PodRef
from gcushare.kube.resources import JsonObject


class PatchKind(Enum):
    """How the server applies a patch; the value is its media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Patch:
    kind: PatchKind
    body: object


@dataclass(frozen=True, slots=True)
class Precondition:
    """Values that an object must still have for a write to happen; None means any."""

    uid: str | None = None
    resource_version: str | None = None

    def metadata(self) -> JsonObject:
        """The metadata entries of the precondition in a patch."""
        pairs = {"uid": self.uid, "resourceVersion": self.resource_version}
        return {key: value for key, value in pairs.items() if value is not None}


def binding(pod: PodRef, node: str, annotations: Mapping[str, str], resource_version: str = "") -> JsonObject:
    """Build a Binding. The server merges its annotations into the pod in the same step that sets the node.

    The server refuses it if the pod has another uid, or another version than the one given. Source: ``BindingREST`` in
    pkg/registry/core/pod/storage, which checks both preconditions from Kubernetes 1.23 on; older servers ignore them.
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
    """Build an Eviction of exactly this pod. ``version`` is the version of the API group policy."""
    return {
        "apiVersion": f"policy/{version}",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": delete_options(Precondition(uid=pod.uid), None),
    }


def annotations_patch(annotations: Mapping[str, str | None], precondition: Precondition) -> Patch:
    """Set annotations; a value of None removes one. All others stay."""
    return Patch(PatchKind.MERGE, {"metadata": {**precondition.metadata(), "annotations": dict(annotations)}})


def capacity_patch(capacity: Mapping[str, int | None]) -> Patch:
    """Set resources in a node's status.capacity; a value of None removes one.

    It is a merge patch, because a JSON patch would fail if the map or a key does not exist, and could not be repeated.
    """
    amounts = {name: None if amount is None else str(amount) for name, amount in capacity.items()}
    return Patch(PatchKind.MERGE, {"status": {"capacity": amounts}})


def delete_options(precondition: Precondition, grace_s: int | None) -> JsonObject:
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if precondition.metadata():
        options["preconditions"] = precondition.metadata()
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    return options
