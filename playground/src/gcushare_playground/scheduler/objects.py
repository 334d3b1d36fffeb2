"""Pods and nodes as the scheduler sees them, read from their JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from gcushare_playground.amounts import FINISHED_PHASES, Amounts, JsonObject, effective_requests, whole_amounts

_ASSUMED_REQUEST = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""What scoring takes for a container that asks for none: kube-scheduler's 100m and 200MB."""


@dataclass(frozen=True, slots=True, eq=False)
class PodInfo:
    """One pod. ``requests`` is what it asks of its node, ``scored`` the same as scoring counts it."""

    uid: str
    namespace: str
    name: str
    created: str
    is_deleting: bool
    is_gated: bool
    scheduler_name: str
    node_name: str
    phase: str
    priority: int
    requests: Amounts
    scored: Amounts
    raw: JsonObject

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_finished(self) -> bool:
        return self.phase in FINISHED_PHASES

    @property
    def spec(self) -> JsonObject:
        spec: JsonObject = self.raw["spec"]
        return spec

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What must change before a pod that did not fit is worth another try."""
        metadata = self.raw["metadata"]
        return metadata.get("labels"), metadata.get("annotations"), self.spec

    @property
    def nominated(self) -> str:
        """The node on which others end for it; empty where none do."""
        return self.raw.get("status", {}).get("nominatedNodeName") or ""

    def condition_message(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition, empty where it has none."""
        for condition in self.raw.get("status", {}).get("conditions") or []:
            if condition.get("type") == kind:
                return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")
        return "", "", ""

    def resource_names(self) -> Iterator[str]:
        """Every resource that a container names in its requests or limits."""
        for container in _containers(self.spec):
            resources = container.get("resources") or {}
            for part in ("requests", "limits"):
                yield from resources.get(part) or {}

    def encode(self) -> bytes:
        """Write the pod as an extender is sent it: without kind, apiVersion and managedFields, in Go's order."""
        metadata = {key: value for key, value in self.raw["metadata"].items() if key != "managedFields"}
        document = {"metadata": metadata, "spec": self.spec, "status": self.raw.get("status", {})}
        return msgspec.json.encode(document)


@dataclass(frozen=True, slots=True, eq=False)
class NodeInfo:
    """One node; ``max_pods`` is how many it takes."""

    uid: str
    name: str
    unschedulable: bool
    taints: tuple[JsonObject, ...]
    labels: Mapping[str, str]
    allocatable: Amounts
    raw: JsonObject

    @property
    def max_pods(self) -> int:
        return self.allocatable.get("pods", 0)

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """The values whose change makes a retry of pods that did not fit useful. A heartbeat changes none of them."""
        conditions = self.raw.get("status", {}).get("conditions") or []
        states = sorted((str(item.get("type")), str(item.get("status"))) for item in conditions)
        return self.unschedulable, self.taints, self.labels, self.allocatable, states

    @property
    def annotations(self) -> JsonObject:
        """What only newer schedulers look at."""
        return self.raw["metadata"].get("annotations") or {}

    def document(self) -> JsonObject:
        """The node as an extender that keeps no cache is sent it."""
        metadata = {key: value for key, value in self.raw["metadata"].items() if key != "managedFields"}
        return {"metadata": metadata, "spec": self.raw.get("spec", {}), "status": self.raw.get("status", {})}


def decode_pod(raw: bytes | msgspec.Raw) -> PodInfo:
    """Read a pod's JSON; raises as ``read_pod``, and msgspec.MsgspecError where it is not a JSON object."""
    return read_pod(msgspec.json.decode(raw, type=JsonObject))


def decode_node(raw: bytes | msgspec.Raw) -> NodeInfo:
    """Read a node's JSON; raises as ``read_node``, and msgspec.MsgspecError where it is not a JSON object."""
    return read_node(msgspec.json.decode(raw, type=JsonObject))


def read_pod(document: JsonObject) -> PodInfo:
    """Read a pod.

    Raises:
        RemoteContractError: a quantity is malformed.
    """
    metadata, spec = document["metadata"], document["spec"]
    return PodInfo(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        created=metadata.get("creationTimestamp") or "",
        is_deleting=metadata.get("deletionTimestamp") is not None,
        is_gated=bool(spec.get("schedulingGates")),
        scheduler_name=spec.get("schedulerName", ""),
        node_name=spec.get("nodeName", ""),
        phase=document.get("status", {}).get("phase", ""),
        priority=spec.get("priority") or 0,
        requests=effective_requests(spec),
        scored=effective_requests(spec, _ASSUMED_REQUEST),
        raw=document,
    )


def read_node(document: JsonObject) -> NodeInfo:
    """Read a node.

    Raises:
        RemoteContractError: a quantity is malformed.
    """
    spec = document.get("spec") or {}
    allocatable = document.get("status", {}).get("allocatable") or {}
    return NodeInfo(
        uid=document["metadata"]["uid"],
        name=document["metadata"]["name"],
        unschedulable=bool(spec.get("unschedulable")),
        taints=tuple(spec.get("taints") or ()),
        labels=document["metadata"].get("labels") or {},
        allocatable=whole_amounts(allocatable),
        raw=document,
    )


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []
