"""preempt's answer: the victims whose cards are needed, and those that the scheduler wants for reasons of its own."""

from __future__ import annotations

import json

import pytest

from gcushare.scheduler_extender.preempting import reduce_victims
from gcushare.scheduler_extender.state import VendorState
from tests.builders import asks
from tests.extender_objects import a_node, a_pod, on_card, pod_document, state_of
from tests.unit.extender_desk import dispatcher_of


def crowded() -> VendorState:
    """Two cards of 16: a holds 10 of card 0, b and c hold 10 and 6 of card 1."""
    state = state_of(a_node("node-1", 16, 16))
    for name, index, units in (("a", 0, 10), ("b", 1, 10), ("c", 1, 6)):
        state.see_pod(a_pod(name, units, node="node-1", record=on_card(index, units)))
    return state


@pytest.mark.parametrize(
    ("proposed", "units", "violations", "answer"),
    [
        pytest.param(["c", "b", "a"], 12, 0, (["a"], 0), id="one of three"),
        pytest.param(["c", "cpu", "a"], 12, 0, (["cpu", "a"], 0), id="one without a card stays"),
        pytest.param(["b", "c"], 16, 2, (["b", "c"], 2), id="both of a card"),
        pytest.param(["b", "c"], 12, 1, (["b", "c"], 1), id="not less than both"),
        pytest.param(["c"], 12, 0, None, id="not enough"),
        pytest.param([], 12, 0, None, id="nobody"),
        pytest.param(["cpu"], 6, 1, (["cpu"], 1), id="the card needs nobody"),
        pytest.param(["a", "cpu"], 4, 1, (["a", "cpu"], 1), id="the card needs nobody, so the proposal stays whole"),
        pytest.param(["c", "b", "a"], 12, 3, (["a"], 1), id="never more violations than pods"),
    ],
)
def test_victims_are_those_that_the_cards_and_the_scheduler_need(
    proposed: list[str], units: int, violations: int, answer: tuple[list[str], int] | None
) -> None:
    node = crowded().ledger.nodes["node-1"]
    found = reduce_victims(node, asks(units), [f"uid-{name}" for name in proposed], violations=violations)

    expected = None if answer is None else ([f"uid-{name}" for name in answer[0]], answer[1])
    assert found == expected


def test_a_pod_that_asks_for_nothing_keeps_the_proposal() -> None:
    meta = {"node-1": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 1}}
    body = json.dumps({"Pod": pod_document("p", None), "NodeNameToMetaVictims": meta}).encode()

    assert json.loads(dispatcher_of((crowded(), None)).preempt(body).body) == {"NodeNameToMetaVictims": meta}


def test_full_victims_are_answered_by_their_uids() -> None:
    full = {"node-1": {"Pods": [pod_document("c"), pod_document("a")], "NumPDBViolations": 0}, "node-9": {"Pods": []}}
    body = json.dumps({"Pod": pod_document("p", 12), "NodeNameToVictims": full}).encode()

    assert json.loads(dispatcher_of((crowded(), None)).preempt(body).body) == {
        "NodeNameToMetaVictims": {"node-1": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 0}}
    }
