"""preempt's answer: the pods that free a card, of all less important ones of a node, as the API server has them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gcushare.core.errors import Refused
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.preempt import MAX_VICTIMS, MAX_VICTIMS_OF_NODE, READ_AT_ONCE
from gcushare.vendors import ENFLAME
from tests.extender_objects import Document, a_node, a_pod, as_pod, on_card, pod_document, preempt_body, state_of
from tests.unit.extender_desk import Desk, LedgersApi, ended_pods, victims_of

HIGH = 100


def holding(name: str, card: int, units: int, priority: int = 0) -> Document:
    record, labels = on_card(card, units), {"app": name[0]}
    return pod_document(name, units, node="node-1", record=record, labels=labels, priority=priority)


def crowded() -> tuple[VendorState, list[Document]]:
    """Two cards of 16: a-1 to a-4 hold 4 each of card 0, important 4 and e 8 of card 1."""
    pods = [holding(f"a-{number}", 0, 4) for number in range(1, 5)]
    pods += [holding("important", 1, 4, HIGH), holding("e", 1, 8)]
    state = state_of(a_node("node-1", 16, 16))
    for each in pods:
        state.pod_applied(as_pod(each))
    return state, pods


def preemptor(units: int, **spec: Any) -> Document:
    document = pod_document("p", units, priority=HIGH)
    document["spec"] |= spec
    return document


def asking(units: int, cpu: str) -> dict[str, Any]:
    amounts = {ENFLAME.memory_resource: str(units), "cpu": cpu}
    return {"containers": [{"name": "main", "resources": {"limits": amounts, "requests": amounts}}]}


def taking_cpu(amount: str) -> Document:
    document = pod_document("cpu", None, node="node-1")
    document["spec"] |= asking(0, amount)
    return document


def budget(app: str, allowed: int) -> Document:
    return {
        "metadata": {"name": f"keep-{app}", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def port(number: int, protocol: str = "TCP") -> dict[str, Any]:
    """Asks for 4 units and a port of the host; 0 for none."""
    (container,) = asking(4, "0")["containers"]
    return {"containers": [container | {"ports": [{"hostPort": number, "protocol": protocol}]}]}


APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}}}
FOUR = ["a-1", "a-2", "a-3", "a-4"]
STRANGERS = [f"stranger-{number}" for number in range(MAX_VICTIMS_OF_NODE)]


@pytest.mark.parametrize(
    ("wish", "more", "budgets", "ended"),
    [
        pytest.param({}, [], [], FOUR, id="those of one card, none was proposed"),
        pytest.param({}, [], None, None, id="budgets cannot be read, so only those proposed may"),
        pytest.param({}, [], [budget("a", 4)], FOUR, id="a budget that allows it"),
        pytest.param({}, [], [budget("a", 3)], None, id="a budget that does not"),
        pytest.param({}, [], [budget("b", 0)], FOUR, id="a budget of other pods"),
        pytest.param(asking(16, "2"), [taking_cpu("63")], [], [*FOUR, "cpu"], id="one whose CPU is needed ends too"),
        pytest.param(asking(16, "2"), [taking_cpu("62")], [], FOUR, id="one whose CPU is not needed does not"),
    ],
)
async def test_all_less_important_pods_of_a_node_may_end_if_that_helps_and_breaks_no_budget(
    wish: dict[str, Any], more: list[Document], budgets: list[Document] | None, ended: list[str] | None
) -> None:
    state, pods = crowded()
    reads = LedgersApi(state, *pods, *more, budgets=budgets)
    proposed = ["e", *(each["metadata"]["name"] for each in more)]
    answer = await Desk((state, None), reads=reads).preempt(preempt_body(preemptor(16, **wish), {"node-1": proposed}))
    assert ended_pods(answer.body) == ({} if ended is None else {"node-1": ended})
    assert answer.result == ("refused" if ended is None else "fits")


@pytest.mark.parametrize(
    ("wish", "victim", "ended"),
    [
        pytest.param({}, {}, [], id="nothing else lacks"),
        pytest.param(port(80), port(80), ["e"], id="a port of the host"),
        pytest.param(port(81), port(80), [], id="another port"),
        pytest.param(port(80), port(80, "UDP"), [], id="the same port of another protocol"),
        pytest.param(port(0, "UDP"), port(0, "UDP"), [], id="no port of the host"),
        pytest.param({}, APART, ["e"], id="its anti-affinity"),
        pytest.param(APART, {}, ["e"], id="the preemptor's anti-affinity"),
        pytest.param({"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}, {}, ["e"], id="a volume"),
        pytest.param({"volumes": [{"emptyDir": {}}]}, {}, [], id="a volume of the node's own"),
        pytest.param({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, {}, ["e"], id="spread"),
    ],
)
async def test_where_the_cards_have_room_pods_end_only_for_something_else_that_lacks(
    wish: dict[str, Any], victim: dict[str, Any], ended: list[str]
) -> None:
    state, pods = crowded()
    pods[-1]["spec"] |= victim
    found = await victims_of(state, preemptor(4, **wish), {"node-1": ["e"]}, reads=LedgersApi(state, *pods))
    assert found == ({"node-1": ended} if ended else {})


async def test_the_number_of_broken_budgets_is_that_of_the_pods_named() -> None:
    state, pods = crowded()
    reads = LedgersApi(state, *pods, budgets=[budget("a", 1)])
    body = preempt_body(preemptor(16), {"node-1": [*FOUR, "e"]}, violations=3)
    answer = await Desk((state, None), reads=reads).preempt(body)
    assert json.loads(answer.body)["NodeNameToMetaVictims"]["node-1"]["NumPDBViolations"] == 3
    assert ended_pods(answer.body) == {"node-1": FOUR}


async def test_a_few_of_the_best_nodes_are_read_and_no_more() -> None:
    state = state_of(*(a_node(f"node-{number}", 16) for number in range(20)))
    for number in range(20):
        node, priority = f"node-{number}", number // 2
        state.pod_applied(a_pod(f"pod-{number}", 16, node=node, record=on_card(0, 16), priority=priority))
    reads = LedgersApi(state)
    victims = {f"node-{number}": [f"pod-{number}"] for number in range(20)}
    found = await victims_of(state, preemptor(8), victims, reads=reads)
    assert sorted(found) == sorted(reads.reads) == ["node-0", "node-1", "node-2", "node-3"]
    assert len(reads.reads) == READ_AT_ONCE


@pytest.mark.slow
async def test_while_victims_are_weighed_others_get_their_turns() -> None:
    state = state_of(*(a_node(f"node-{number}", 64) for number in range(20)))
    for node in range(20):
        for number in range(32):
            name = f"pod-{node}-{number}"
            state.pod_applied(a_pod(name, 2, node=f"node-{node}", record=on_card(0, 2, size=64)))
    victims = {name: [held.pod.name for held in node.assignments.values()] for name, node in state.ledger.nodes.items()}
    answering = asyncio.create_task(victims_of(state, preemptor(60), victims), name="preempt")
    turns = 0
    while not answering.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns >= 20 * 32 // 64
    assert {len(names) for names in answering.result().values()} == {30}


async def test_nodes_with_more_victims_than_can_be_weighed_are_left_out() -> None:
    victims = {"node-2": ["e", *STRANGERS], "node-1": ["e"]}
    assert await victims_of(crowded()[0], preemptor(16), victims) == {"node-1": FOUR}


@pytest.mark.slow
@pytest.mark.parametrize(
    "victims",
    [
        pytest.param({"node-2": ["e", *STRANGERS]}, id="too many of one node"),
        pytest.param(
            {f"node-{number}": STRANGERS for number in range(2, 3 + MAX_VICTIMS // MAX_VICTIMS_OF_NODE)}, id="in all"
        ),
    ],
)
async def test_where_only_nodes_that_were_left_out_might_do_the_call_is_refused_with_the_numbers(
    victims: dict[str, list[str]],
) -> None:
    why = f"1 of {len(victims)} proposed nodes were left out .* at most {MAX_VICTIMS} victims in all"
    with pytest.raises(Refused, match=why):
        await victims_of(crowded()[0], preemptor(16), victims)


async def test_a_preemptor_that_is_gone_or_another_pod_ends_no_one() -> None:
    state, pods = crowded()
    another = pod_document("p", 16, uid="another")
    with pytest.raises(Refused, match="pod default/p has uid 'another', not 'uid-p': it is another pod"):
        await victims_of(state, preemptor(16), {"node-1": ["e"]}, reads=LedgersApi(state, *pods, another))
