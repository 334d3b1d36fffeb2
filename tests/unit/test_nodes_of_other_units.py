"""Pods get the amount that their author meant, where nodes, another system or the kubelet count in other units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gcushare.cluster.diagnosis.checks.inventories import check_units
from gcushare.cluster.diagnosis.facts import ExtenderFacts, Facts, ReplicaFacts
from gcushare.cluster.programs import ReportingNode, SeenPod
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.explain.explanation import Explainer
from gcushare.core.explain.reason_text import summarise
from gcushare.core.explain.verdicts import Verdict
from gcushare.core.ledger import Ledger
from gcushare.core.packing.defragment import plan_room
from gcushare.core.placement import POLICIES
from gcushare.core.units import parse_memory_unit
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.filter import DISTRUST_REASON, UNIT_REASON
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import MEMORY_UNIT
from gcushare.wire.objects import Node
from gcushare.wire.pod_options import pod_options
from tests.builders import asks, card, held, pod, present
from tests.extender_objects import (
    DEFAULT_POLICIES,
    Document,
    a_node,
    inventory_text,
    node_document,
    pod_document,
    state_of,
)
from tests.unit.extender_desk import answer_of

GB, MIB = parse_memory_unit("1"), parse_memory_unit("MiB")
IN_MIB = {MEMORY_UNIT: "MiB"}


def node_in(unit: str, name: str, *units: int) -> Node:
    offered = [card(index, size) for index, size in enumerate(units)]
    return a_node(name, offered=offered, annotations={ENFLAME.inventory_annotation: inventory_text(offered, unit)})


def answer(
    state: VendorState, units: int, annotations: Mapping[str, str] | None = None, most: int | None = 20
) -> Mapping[str, Any]:
    return answer_of(state, pod_document("p", units, annotations=annotations), most=most)


@pytest.mark.parametrize(
    ("units", "annotations", "named"),
    [
        pytest.param(4, None, ["coarse"], id="4 are 4 GB"),
        pytest.param(4, IN_MIB, ["fine"], id="4 MiB, said so"),
        pytest.param(4096, IN_MIB, ["fine"], id="4096 MiB"),
        pytest.param(4, {MEMORY_UNIT: "GiB"}, ["coarse"], id="a GiB is a GB here"),
        pytest.param(4096, None, [], id="4096 GB"),
        pytest.param(4, {MEMORY_UNIT: "0.1"}, [], id="a unit of no node"),
    ],
)
def test_a_pod_is_named_nodes_of_its_unit_alone(
    units: int, annotations: Mapping[str, str] | None, named: list[str]
) -> None:
    state = state_of(node_in("1", "coarse", 16), node_in("MiB", "fine", 16_384))
    assert (answer(state, units, annotations, None)["NodeNames"] or []) == named
    found = answer(state, units, annotations)
    assert (found["NodeNames"] or []) == named
    if units == 4 and not named:
        assert {*found["FailedNodes"].values()} == {UNIT_REASON}
        assert found["FailedAndUnresolvableNodes"] == found["FailedNodes"], "ending pods would not help"


def test_a_cluster_of_one_unit_needs_no_word_and_a_node_that_differs_is_left_out_while_it_is_there() -> None:
    state = state_of(node_in("MiB", "a", 16_384), node_in("MiB", "b", 16_384))
    assert {*answer(state, 4)["NodeNames"]} == {"a", "b"}
    state.node_applied(node_in("1", "odd", 16))
    assert answer(state, 4)["NodeNames"] == ["odd"], "nothing says that pods count in MiB here"
    state.node_deleted("odd")
    state.node_applied(node_in("0.1", "odd", 160))
    assert {*answer(state, 4)["NodeNames"]} == {"a", "b"}, "of units that are not the vendor's, the most frequent"


def test_the_admins_unit_holds_for_all_nodes_and_a_pods_own_before_it() -> None:
    state = VendorState(ENFLAME, DEFAULT_POLICIES, unit=MIB)
    for name in ("a", "b"):
        state.node_applied(node_in("1", name, 16))
    assert not answer(state, 4)["NodeNames"]
    assert {*answer(state, 4, {MEMORY_UNIT: "1"})["NodeNames"]} == {"a", "b"}
    state.node_applied(node_in("MiB", "fine", 16_384))
    assert answer(state, 4)["NodeNames"] == ["fine"]


def test_a_bind_to_such_a_node_is_refused_and_the_explanation_says_why() -> None:
    state = state_of(node_in("1", "coarse", 2), node_in("MiB", "fine", 16_384))
    rank = POLICIES["binpack"].rank_card
    with pytest.raises(Refused, match="node fine counts memory in MiB, another unit than the pod"):
        state.ledger.reserve(pod("p"), "fine", asks(4), rank)
    explainer = Explainer(asks(4))
    for name in ("coarse", "fine"):
        explainer.add(state.ledger.nodes[name])
    found = explainer.finish()
    assert {each.verdict for each in found.classes} == {Verdict.TOO_SMALL, Verdict.OTHER_UNIT}
    assert "1 node: its memory is counted in another unit than the pod's" in summarise(found)
    assert "the largest usable card has 2" in summarise(found), "not the 16,384 of the other unit"
    alone = Explainer(asks(4))
    alone.add(state.ledger.nodes["fine"])
    assert "gcushare.io/memory-unit" in summarise(alone.finish())


def test_no_pod_is_moved_to_a_node_on_which_its_number_is_another_amount() -> None:
    ledger = Ledger(GB)
    for name, unit, size in (("source", GB, 16), ("fine", MIB, 16_384)):
        ledger.set_node(name, [card(0, size)], unit)
    ledger.apply(held("small", "source", (0, 4)))
    movable = {"uid-small": asks(4)}
    assert plan_room(ledger, asks(16), movable, ["source", "fine"]) is None
    ledger.set_node("coarse", [card(0, 4)], GB)
    plan = present(plan_room(ledger, asks(16), movable, ["source", "coarse", "fine"]))
    assert (plan.node, [move.target for move in plan.moves]) == ("source", ["coarse"])


def test_a_unit_that_no_node_can_have_is_refused() -> None:
    with pytest.raises(RemoteContractError, match=r"memory-unit='GB' is not known; accepted: GiB, MiB, 1, 0.1"):
        pod_options({MEMORY_UNIT: "GB"})


def extender(*flags: str) -> ExtenderFacts:
    container = {"name": "c", "image": "i", "command": ["gcushare-scheduler-extender"], "args": list(flags)}
    seen = msgspec.convert({"metadata": {"name": "e"}, "spec": {"containers": [container]}}, SeenPod)
    return ExtenderFacts(replicas=(ReplicaFacts(name="e", pod=seen),))


@pytest.mark.parametrize(
    ("units", "facts", "severity", "words"),
    [
        pytest.param({"a": "1", "b": "GiB"}, extender(), None, "", id="a GiB is a GB here"),
        pytest.param({"a": "MiB", "b": "MiB"}, extender(), None, "", id="one unit"),
        pytest.param({"a": "1", "b": "MiB"}, extender(), "warning", "in GB unless they say .* MiB on b:", id="two"),
        pytest.param(
            {"a": "1", "b": "MiB"}, extender("--memory-unit=MiB"), "warning", "in MiB .* GB on a:", id="given"
        ),
        pytest.param(
            {"a": "1"}, extender("--memory-unit=MiB"), "warning", "get no cards there", id="none of the given"
        ),
        pytest.param({"a": "1", "b": "MiB"}, ExtenderFacts(), "error", "nothing keeps such pods off", id="no extender"),
    ],
)
def test_doctor_names_the_nodes_whose_unit_is_not_the_clusters(
    units: Mapping[str, str], facts: ExtenderFacts, severity: str | None, words: str
) -> None:
    found_nodes = (node_in(unit, name, 16) for name, unit in units.items())
    nodes = tuple(ReportingNode(metadata=each.metadata, spec=each.spec) for each in found_nodes)
    for each in nodes:
        each.metadata.labels[ENFLAME.label_key] = "true"
    found = list(check_units(Facts(now=datetime(2026, 1, 2, tzinfo=UTC), nodes=nodes, extender=facts)))
    assert [(each.id, each.severity.value) for each in found] == ([("units-differ", severity)] if severity else [])
    assert all(re.search(words, each.problem) and "memoryUnit" in each.remedy for each in found)


MEMORY = ENFLAME.memory_resource
HAMI_MIB = 2 * 48 * 1024
"""What a plugin in MiB lists of two cards of 48 GB."""


def counted(document: Document, units: int) -> Node:
    """The node, of whose memory the kubelet counts so much."""
    capacity = document["status"]["capacity"] | {MEMORY: str(units)}
    return msgspec.convert(document | {"status": document["status"] | {"capacity": capacity}}, Node)


def update(state: VendorState, units: int, *sizes: int, unit: str = "1") -> None:
    """Bring a node's newest state: the cards of its inventory, and the kubelet's count."""
    offered = [card(index, size) for index, size in enumerate(sizes)]
    annotations = {ENFLAME.inventory_annotation: inventory_text(offered, unit)}
    state.node_applied(counted(node_document("n", offered=offered, annotations=annotations), units))


def test_a_node_counted_in_mib_by_another_system_takes_no_pod_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    state = state_of(counted(node_document("theirs", 48, 48), HAMI_MIB), a_node("full", 2))
    found = answer_of(state, pod_document("p", 4), "theirs", "full")
    assert not found["NodeNames"]
    assert found["FailedNodes"]["theirs"] == found["FailedAndUnresolvableNodes"]["theirs"] == DISTRUST_REASON
    assert found["FailedNodes"]["full"] == ENFLAME.refused_reason
    why = "the kubelet counts 98304 enflame.com/gcu-memory, and the inventory has 96 in units of"
    assert why in state.nodes.problems["theirs"]
    assert why in caplog.text
    explainer = Explainer(asks(4))
    explainer.add(state.ledger.nodes["theirs"])
    assert "gcushare doctor names it" in summarise(explainer.finish())


def test_it_takes_pods_again_when_the_other_system_has_gone() -> None:
    state = state_of()
    update(state, HAMI_MIB, 48, 48)
    assert state.nodes.distrusted == {"n"}
    update(state, 0, 48, 48)
    update(state, 96, 48, 48)
    assert not state.nodes.distrusted
    assert not state.nodes.problems
    assert state.ledger.nodes["n"].largest_free == 48


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([(0, (16, 16), "1"), (32, (16, 16), "1")], id="registration"),
        pytest.param([(128, (16,) * 8, "1"), (128, (16,), "1"), (16, (16,), "1")], id="cards lost, the count late"),
        pytest.param([(16, (16,), "1"), (16, (16,) * 8, "1"), (128, (16,) * 8, "1")], id="cards added, the count late"),
        pytest.param([(128, (16,), "1"), (16, (16,), "1")], id="cards lost while the extender was away"),
        pytest.param([(32, (16, 16), "1"), (32, (16, 48), "1")], id="a card replaced by a larger one"),
        pytest.param([(32, (16, 16), "GiB"), (32, (16_384,) * 2, "MiB"), (32_768, (16_384,) * 2, "MiB")], id="finer"),
        pytest.param([(32_768, (16_384,) * 2, "MiB"), (32_768, (16, 16), "GiB"), (32, (16, 16), "GiB")], id="coarser"),
        pytest.param([(32, (16, 16), "1"), (0, (16, 16), "1"), (32, (16, 16), "1")], id="the kubelet restarts"),
    ],
)
def test_no_transition_of_ours_raises_a_doubt(steps: list[tuple[int, tuple[int, ...], str]]) -> None:
    state = state_of()
    for units, sizes, unit in steps:
        update(state, units, *sizes, unit=unit)
        assert not state.nodes.distrusted, (units, sizes, unit)
        assert not state.nodes.problems


@pytest.mark.parametrize(
    ("units", "is_doubted"),
    [(15, True), (16, False), (16 * 16, False), (16 * 16 + 1, True), (160, False), (320, True), (1, True)],
)
def test_only_what_no_number_of_such_cards_explains_is_doubted(units: int, is_doubted: bool) -> None:
    state = state_of()
    update(state, units, 16, 16)
    assert bool(state.nodes.distrusted) is is_doubted
