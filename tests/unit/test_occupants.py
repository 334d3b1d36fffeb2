"""What preemption reads of pods, nodes and disruption budgets, as kube-scheduler does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Node
from gcushare.wire.occupants import OccupantPod, PodDisruptionBudget, by_namespace, read_occupancy
from tests.extender_objects import node_document, pod_document

MEMORY = ENFLAME.memory_resource


def a_budget(selector: dict[str, Any] | None, **status: Any) -> PodDisruptionBudget:
    document = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": selector}, "status": status}
    return msgspec.convert(document if selector is not None else document | {"spec": {}}, PodDisruptionBudget)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "is_counted"),
    [
        (None, False),
        ({}, False),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False),
        (expression("app", "In", "api", "web"), True),
        (expression("app", "NotIn", "api"), True),
        (expression("app", "NotIn", "web"), False),
        (expression("tier", "NotIn", "x"), True),
        (expression("app", "Exists"), True),
        (expression("tier", "DoesNotExist"), True),
        (expression("tier", "Exists"), False),
        (expression("app", "Like", "web"), False),
        ({"matchLabels": {"app": "web"}, **expression("tier", "Exists")}, False),
    ],
)
def test_a_budget_counts_the_pods_of_its_selector(selector: dict[str, Any] | None, is_counted: bool) -> None:
    pod = msgspec.convert(pod_document("p", labels={"app": "web"}), OccupantPod)
    assert a_budget(selector).counts(pod) is is_counted


def test_a_budget_counts_no_pod_of_another_namespace_without_labels_or_that_is_ending_already() -> None:
    of_web = {"matchLabels": {"app": "web"}}
    for other in (pod_document("p", labels={"app": "web"}, namespace="other"), pod_document("p")):
        assert not a_budget(of_web).counts(msgspec.convert(other, OccupantPod))
    pod = msgspec.convert(pod_document("p", labels={"app": "web"}), OccupantPod)
    assert not a_budget(of_web, disruptedPods={"p": "2026-01-01T00:00:00Z"}).counts(pod)


@pytest.mark.parametrize(
    ("count", "selector", "read"),
    [
        pytest.param(10_000, {"matchLabels": {"app": "web"}}, 682, id="very many budgets"),
        pytest.param(10, expression("tier", "NotIn", *["x"] * 100_000), 0, id="very large ones"),
    ],
)
def test_of_one_namespace_so_many_budgets_are_read_that_preemption_takes_no_longer(
    count: int, selector: dict[str, Any], read: int
) -> None:
    budget = a_budget(selector)
    others = msgspec.convert({"metadata": {"name": "b", "namespace": "other"}}, PodDisruptionBudget)
    found = by_namespace([*[budget] * count, others])
    assert (len(found.get("default", ())), len(found["other"])) == (read, 1)


def test_what_lacks_is_counted_of_each_resource_that_the_node_lists_with_the_pods_that_go_first() -> None:
    def occupant(name: str, cpu: str, node: str = "n", phase: str = "Running") -> OccupantPod:
        document = pod_document(name, 4, node=node, phase=phase)
        document["spec"]["containers"][0]["resources"]["requests"] = {MEMORY: "4", "cpu": cpu, "example.com/x": "1"}
        return msgspec.convert(document, OccupantPod)

    here = read_occupancy(
        occupant("preemptor", "500m", node=""),
        msgspec.convert(node_document("n", 8), Node),
        [occupant("a", "60"), occupant("over", "60", phase="Succeeded")],
        None,
        ahead=[occupant("first", "3700m", node="")],
        vendor=ENFLAME,
    )
    assert here.missing == {MEMORY: 4000, "cpu": 200, "pods": 3000 - 110_000}
    assert {uid: pod.requests for uid, pod in here.pods.items()} == {
        "uid-a": {MEMORY: 4000, "cpu": 60_000, "pods": 1000}
    }
    assert here.allowed is None
