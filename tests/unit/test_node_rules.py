"""Which nodes a pod's rules leave it: kube-scheduler's cases one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gcushare.core.node_rules import NodePlace, Obstacle
from gcushare.wire.objects import NODE, POD

NODE_JSON: dict[str, Any] = {"metadata": {"name": "n1", "labels": {"pool": "a", "cards": "8", "empty": ""}}, "spec": {}}


def place(**spec: Any) -> NodePlace:
    return NODE.read(msgspec.json.encode(NODE_JSON | {"spec": spec})).place


def obstacle(spec: dict[str, Any], node: NodePlace) -> str:
    found = POD.read(msgspec.json.encode({"spec": spec})).spec.node_rules.find_obstacle(node)
    return "" if found is None else found.text


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def where(*expressions: dict[str, Any], fields: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return affinity({"matchExpressions": list(expressions), "matchFields": list(fields)})


@pytest.mark.parametrize(
    ("spec", "is_left"),
    [
        pytest.param({}, True, id="no rule"),
        pytest.param({"nodeSelector": {"pool": "a", "cards": "8"}}, True, id="every label of the selector"),
        pytest.param({"nodeSelector": {"pool": "a", "zone": "z"}}, False, id="one label is missing"),
        pytest.param({"nodeSelector": {"zone": ""}}, False, id="a missing label is not an empty one"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, True, id="affinity without a requirement"),
        pytest.param(affinity(), False, id="no term"),
        pytest.param(affinity({}), False, id="an empty term"),
        pytest.param(affinity({}, {"matchExpressions": [label("pool", "Exists")]}), True, id="terms are alternatives"),
        pytest.param(where(label("pool", "In", "b", "a")), True, id="In"),
        pytest.param(where(label("pool", "NotIn", "b")), True, id="NotIn"),
        pytest.param(where(label("pool", "NotIn")), False, id="NotIn nothing"),
        pytest.param(where(label("pool", "NotIn", "a", "b")), False, id="NotIn with the label's value"),
        pytest.param(where(label("zone", "NotIn", "a")), True, id="NotIn without the label"),
        pytest.param(where(label("empty", "Exists")), True, id="Exists with an empty value"),
        pytest.param(where(label("zone", "Exists")), False, id="Exists without the label"),
        pytest.param(where(label("zone", "DoesNotExist")), True, id="DoesNotExist"),
        pytest.param(where(label("pool", "DoesNotExist")), False, id="DoesNotExist with the label"),
        pytest.param(where(label("pool", "Exists", "a")), False, id="Exists takes no value"),
        pytest.param(where(label("cards", "Gt", "7")), True, id="Gt"),
        pytest.param(where(label("cards", "Gt", "8")), False, id="Gt of an equal number"),
        pytest.param(where(label("cards", "Lt", "+09")), True, id="Lt as Go reads numbers"),
        pytest.param(where(label("pool", "Lt", "9")), False, id="Lt of a label that is no number"),
        pytest.param(where(label("zone", "Gt", "-1")), False, id="Gt without the label"),
        pytest.param(where(label("cards", "Gt", "1_0")), False, id="a number that Go does not read"),
        pytest.param(where(label("cards", "Lt", "9223372036854775808")), False, id="a number beyond 64 bits"),
        pytest.param(where(label("cards", "Gt", "1", "2")), False, id="Gt of two numbers"),
        pytest.param(where(label("pool", "In", "a"), label("cards", "In", "4")), False, id="all are needed"),
        pytest.param(where(label("pool", "Near", "a")), False, id="an operator that is not known"),
        pytest.param(where(fields=(label("metadata.name", "In", "n1"),)), True, id="the node's name"),
        pytest.param(where(fields=(label("metadata.name", "NotIn", "n1"),)), False, id="not the node's name"),
        pytest.param(where(fields=(label("metadata.name", "NotIn", "n2"),)), True, id="another node's name"),
        pytest.param(where(fields=(label("metadata.name", "In", "n1", "n2"),)), False, id="a field has one value"),
        pytest.param(where(fields=(label("metadata.uid", "In", "n1"),)), False, id="another field"),
        pytest.param(
            where(label("pool", "In", "a"), fields=(label("metadata.name", "In", "n2"),)), False, id="both parts"
        ),
        pytest.param(
            {"nodeSelector": {"pool": "a"}, **where(label("cards", "In", "4"))}, False, id="selector and affinity"
        ),
    ],
)
def test_labels_and_names_select_as_for_kube_scheduler(spec: dict[str, Any], is_left: bool) -> None:
    assert (obstacle(spec, place()) == "") is is_left


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


NOT_READY = Obstacle("taint node.kubernetes.io/not-ready:NoSchedule", passes=True)
CORDON = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("taints", "tolerations", "is_left"),
    [
        pytest.param([taint("gpu")], [], False, id="not tolerated"),
        pytest.param([taint("gpu", effect="NoExecute")], [], False, id="NoExecute keeps off too"),
        pytest.param([taint("gpu", effect="PreferNoSchedule")], [], True, id="PreferNoSchedule keeps no one off"),
        pytest.param([taint("gpu", "x")], [{"key": "gpu", "value": "x"}], True, id="Equal is the default"),
        pytest.param([taint("gpu", "x")], [{"key": "gpu", "operator": "Equal"}], False, id="another value"),
        pytest.param([taint("gpu", "x")], [{"key": "gpu", "value": "x", "operator": "Equal"}], True, id="Equal"),
        pytest.param([taint("gpu", "x")], [{"key": "gpu", "operator": "Exists"}], True, id="Exists takes any value"),
        pytest.param([taint("gpu")], [{"key": "cpu", "operator": "Exists"}], False, id="another key"),
        pytest.param([taint("gpu", "x")], [{"operator": "Exists"}], True, id="an empty key takes all keys"),
        pytest.param(
            [taint("gpu", effect="NoExecute")],
            [{"operator": "Exists", "effect": "NoSchedule"}],
            False,
            id="an empty key with another effect",
        ),
        pytest.param(
            [taint("gpu", effect="NoExecute")],
            [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            True,
            id="for a while is enough",
        ),
        pytest.param([taint("gpu"), taint("dev")], [{"key": "gpu"}], False, id="every taint has to be tolerated"),
        pytest.param([taint("gpu")], [{"key": "gpu", "operator": "Near"}], False, id="an operator that is not known"),
        pytest.param([taint("sla", "950")], [{"key": "sla", "operator": "Gt", "value": "900"}], True, id="Gt"),
        pytest.param([taint("sla", "950")], [{"key": "sla", "operator": "Lt", "value": "950"}], False, id="Lt"),
        pytest.param([taint("sla", "950")], [{"key": "sla", "operator": "Gt", "value": "0900"}], False, id="a 0 first"),
        pytest.param([taint("sla", "high")], [{"key": "sla", "operator": "Gt", "value": "9"}], False, id="no number"),
    ],
)
def test_taints_keep_off_who_does_not_tolerate_them(
    taints: list[dict[str, str]], tolerations: list[dict[str, Any]], is_left: bool
) -> None:
    assert (obstacle({"tolerations": tolerations}, place(taints=taints)) == "") is is_left


@pytest.mark.parametrize(
    ("tolerations", "is_left"),
    [
        ([], False),
        ([{"key": CORDON, "operator": "Exists"}], True),
        ([{"key": CORDON, "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"operator": "Exists"}], True),
    ],
)
def test_a_cordon_is_tolerated_like_its_taint(tolerations: list[dict[str, str]], is_left: bool) -> None:
    spec = {"tolerations": tolerations}
    for node in (place(unschedulable=True), place(unschedulable=True, taints=[taint(CORDON)])):
        assert obstacle(spec, node) == ("" if is_left else "a cordon")


@pytest.mark.parametrize(
    ("spec", "node", "words"),
    [
        ({"nodeSelector": {"z": "1", "b": "2"}}, place(), "nodeSelector b=2, z=1"),
        (where(label("pool", "In", "b", "c")), place(), "node affinity pool In b, c"),
        (affinity(), place(), "node affinity without a term"),
        ({}, place(taints=[taint("gpu", "x")]), "taint gpu=x:NoSchedule"),
        ({"nodeSelector": {"z": "1" * 200}}, place(), "nodeSelector z=" + "1" * 78 + "…"),
    ],
)
def test_what_keeps_a_pod_from_a_node_is_named(spec: dict[str, Any], node: NodePlace, words: str) -> None:
    assert obstacle(spec, node) == words


@pytest.mark.parametrize(
    ("spec", "node", "found"),
    [
        ({}, place(unschedulable=True), Obstacle("a cordon", passes=True)),
        ({}, place(taints=[taint("node.kubernetes.io/not-ready")]), NOT_READY),
        (
            {},
            place(taints=[taint("karpenter.sh/unregistered", effect="NoExecute")]),
            Obstacle("taint karpenter.sh/unregistered:NoExecute", passes=True),
        ),
        ({}, place(taints=[taint("node.kubernetes.io/not-ready"), taint("gpu")]), Obstacle("taint gpu:NoSchedule")),
        ({"nodeSelector": {"z": "1"}}, place(unschedulable=True), Obstacle("nodeSelector z=1")),
        ({"tolerations": [{"operator": "Exists"}]}, place(unschedulable=True, taints=[taint("gpu")]), None),
    ],
)
def test_what_passes_is_named_only_where_nothing_else_keeps_the_pod_off(
    spec: dict[str, Any], node: NodePlace, found: Obstacle | None
) -> None:
    assert POD.read(msgspec.json.encode({"spec": spec})).spec.node_rules.find_obstacle(node) == found
