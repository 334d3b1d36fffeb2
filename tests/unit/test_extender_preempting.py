"""preempt's answer: the victims whose cards are needed, and those that the scheduler wants for reasons of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from gcushare.core.errors import Refused
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.preempt import MAX_VICTIMS, MAX_VICTIMS_OF_NODE, reduce_victims
from gcushare.wire.objects import Pod
from tests.builders import asks
from tests.extender_objects import a_node, a_pod, on_card, pod_document, state_of
from tests.unit.extender_desk import Desk


def crowded() -> VendorState:
    """Two cards of 16: a holds 10 of card 0, b and c hold 10 and 6 of card 1."""
    state = state_of(a_node("node-1", 16, 16))
    for name, index, units in (("a", 0, 10), ("b", 1, 10), ("c", 1, 6)):
        state.pod_applied(a_pod(name, units, node="node-1", record=on_card(index, units)))
    return state


@pytest.mark.parametrize(("violations", "ended"), [(0, ["b", "c"]), (2, ["b", "c"]), (3, ["a"])])
def test_where_each_victim_breaks_a_budget_the_fewest_end_however_important(violations: int, ended: list[str]) -> None:
    state = crowded()
    document = pod_document("a", 10, node="node-1", record=on_card(0, 10))
    document["spec"]["priority"] = 100
    state.pod_applied(msgspec.convert(document, Pod))
    found = reduce_victims(state.ledger.nodes["node-1"], asks(12), ["uid-a", "uid-b", "uid-c"], violations=violations)

    assert found == ([f"uid-{name}" for name in ended], min(violations, len(ended)))


@pytest.mark.parametrize(
    ("proposed", "units", "violations", "answer"),
    [
        pytest.param(["c", "b", "a"], 12, 0, (["a"], 0), id="one of three"),
        pytest.param(["c", "cpu", "a"], 12, 0, (["cpu", "a"], 0), id="one without a card stays"),
        pytest.param(["b", "c"], 16, 2, (["b", "c"], 2), id="both of a card"),
        pytest.param(["b", "c"], 12, 1, (["b", "c"], 1), id="not less than both"),
        pytest.param(["c"], 12, 0, None, id="not enough"),
        pytest.param([], 12, 0, None, id="no one"),
        pytest.param(["cpu"], 6, 1, (["cpu"], 1), id="the card needs no one"),
        pytest.param(["a", "cpu"], 4, 1, (["a", "cpu"], 1), id="the card needs no one, so the proposal stays whole"),
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


def proposing(units: int, victims: Mapping[str, Sequence[str]]) -> bytes:
    meta = {name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for name, uids in victims.items()}
    return json.dumps({"Pod": pod_document("p", units), "NodeNameToMetaVictims": meta}).encode()


def kept(body: bytes) -> dict[str, list[str]]:
    victims = json.loads(body)["NodeNameToMetaVictims"]
    return {name: [pod["UID"] for pod in each["Pods"]] for name, each in victims.items()}


async def test_while_victims_are_weighed_others_get_their_turns() -> None:
    state = state_of(*(a_node(f"node-{number}", 64) for number in range(20)))
    for node in range(20):
        for number in range(32):
            name = f"pod-{node}-{number}"
            state.pod_applied(a_pod(name, 2, node=f"node-{node}", record=on_card(0, 2, size=64)))
    victims = {name: list(node.assignments) for name, node in state.ledger.nodes.items()}
    answering = asyncio.create_task(Desk((state, None)).preempt(proposing(60, victims)), name="preempt")
    turns = 0
    while not answering.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns >= 20 * 32 // 64
    assert {name: len(uids) for name, uids in kept(answering.result().body).items()} == dict.fromkeys(victims, 30)


async def test_nodes_with_more_victims_than_can_be_weighed_are_left_out() -> None:
    strangers = [f"stranger-{number}" for number in range(MAX_VICTIMS_OF_NODE)]
    victims = {"node-2": ["uid-c", *strangers], "node-1": ["uid-a"]}
    answer = await Desk((crowded(), None)).preempt(proposing(12, victims))

    assert kept(answer.body) == {"node-1": ["uid-a"]}


async def test_where_only_nodes_that_were_left_out_might_do_the_call_is_refused_with_the_numbers() -> None:
    strangers = [f"stranger-{number}" for number in range(MAX_VICTIMS_OF_NODE)]
    body = proposing(12, {"node-1": ["uid-c"], "node-2": ["uid-a", *strangers]})

    with pytest.raises(Refused, match=f"1 of 2 proposed nodes were left out .* at most {MAX_VICTIMS} victims in all"):
        await Desk((crowded(), None)).preempt(body)


async def test_no_more_victims_are_weighed_in_one_call_than_a_bound() -> None:
    nodes = MAX_VICTIMS // MAX_VICTIMS_OF_NODE + 1
    victims = {
        f"node-{number}": [f"stranger-{n}" for n in range(MAX_VICTIMS_OF_NODE)] for number in range(2, nodes + 2)
    }
    with pytest.raises(Refused, match=f"1 of {nodes} proposed nodes were left out"):
        await Desk((crowded(), None)).preempt(proposing(12, victims))
