"""Kubernetes JSON into our objects and back: what is skipped, what is kept as it was written, what is refused."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec
import pytest

from gcushare.wire.objects import (
    Event,
    Lease,
    LeaseSpec,
    ListOf,
    Node,
    ObjectMeta,
    Pod,
)
from tests.extender_objects import on_card, pod_document

T = TypeVar("T")
JsonObject = dict[str, Any]


def decode(kind: type[T], document: object) -> T:
    return msgspec.json.decode(json.dumps(document), type=kind)


def pod_json() -> JsonObject:
    """A pod as the API server sends it, with much that is not read here."""
    document = pod_document("train-1", node="node-1", record=on_card(3, 4), phase="Running", namespace="team-1")
    document["metadata"] |= {
        "resourceVersion": "500001",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train", "uid": "u"}],
        "managedFields": [{"manager": "m", "fieldsV1": {"f:metadata": {"f:annotations": {}}}}],
    }
    document["spec"] |= {
        "priority": 0,
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always", "image": "i"}],
    }
    document["status"] |= {
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}],
        "containerStatuses": [{"name": "main", "ready": True, "containerID": "containerd://ab", "restartCount": 2}],
    }
    return document


def test_a_pod_keeps_what_is_declared_and_skips_the_rest() -> None:
    pod = decode(Pod, pod_json())
    assert pod.key == "team-1/train-1"
    assert (pod.spec.node_name, pod.spec.priority, pod.status.phase) == ("node-1", 0, "Running")
    assert pod.spec.containers[0].resources.limits["enflame.com/gcu-memory"] == 4
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert pod.status.container_statuses[0].restart_count == 2
    assert pod.metadata.owner_references[0].kind == "ReplicaSet"


@pytest.mark.parametrize("quantity", ["4", "4Gi", 4, 4.5, -1, 10**18])
def test_a_quantity_stays_as_it_was_written(quantity: str | float) -> None:
    pod = decode(Pod, {"spec": {"containers": [{"resources": {"limits": {"enflame.com/gcu-memory": quantity}}}]}})
    kept = pod.spec.containers[0].resources.limits["enflame.com/gcu-memory"]
    assert kept == quantity
    assert type(kept) is type(quantity)


def test_a_node_answers_for_its_address_and_readiness() -> None:
    addresses = [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.5"}]
    conditions = [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}]
    node = decode(Node, {"status": {"addresses": addresses, "conditions": conditions}})
    assert (node.internal_ip, node.is_ready) == ("10.0.0.5", True)
    assert (decode(Node, {}).internal_ip, decode(Node, {}).is_ready) == (None, False)


@pytest.mark.parametrize(("items", "count"), [([{}, {}], 2), ([], 0), (None, 0)])
def test_a_list_may_be_empty_in_either_way_of_go(items: list[JsonObject] | None, count: int) -> None:
    page = decode(ListOf[Pod], {"metadata": {"resourceVersion": "5", "continue": "token"}, "items": items})
    assert (len(page.entries), page.metadata.continue_) == (count, "token")


def test_what_is_written_has_kubernetes_names_and_no_empty_fields() -> None:
    spec = LeaseSpec(holder_identity="", lease_duration_seconds=1, lease_transitions=0)
    lease = Lease(api_version="coordination.k8s.io/v1", kind="Lease", metadata=ObjectMeta(name="l"), spec=spec)
    assert json.loads(msgspec.json.encode(lease)) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 0},
    }
    assert msgspec.json.encode(Event(reason="x")) == b'{"reason":"x"}'
