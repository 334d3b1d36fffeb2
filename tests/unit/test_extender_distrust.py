"""The extender places no pod on a node whose memory the kubelet counts in another unit, or for another system."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.core.explain.explanation import Explainer
from gcushare.core.explain.reason_text import summarise
from gcushare.core.explain.verdicts import Verdict
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.filter import DISTRUST_REASON
from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Node
from tests.builders import asks, card
from tests.extender_objects import (
    Document,
    a_node,
    inventory_text,
    node_document,
    pod_document,
    state_of,
)
from tests.unit.extender_desk import answer_of

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


def test_the_explanation_names_the_doubt_and_the_command_that_names_the_system() -> None:
    state = state_of(counted(node_document("theirs", 48, 48), HAMI_MIB))
    explainer = Explainer(asks(4))
    explainer.add(state.ledger.nodes["theirs"])
    found = explainer.finish()
    assert [each.verdict for each in found.classes] == [Verdict.DISTRUSTED]
    assert "gcushare doctor names it" in summarise(found)


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


def test_a_change_of_unit_seen_only_in_its_middle_is_doubted_until_the_kubelet_counts_it() -> None:
    """An extender that has just started cannot know it from another system; pods wait for seconds."""
    state = state_of()
    update(state, 32_768, 16, 16)
    assert state.nodes.distrusted
    update(state, 32, 16, 16)
    assert not state.nodes.distrusted
