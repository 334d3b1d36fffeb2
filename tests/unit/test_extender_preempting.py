"""preempt's answer: the pods that free a card, of all less important ones of a node, as the API server has them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from gcushare.core.errors import Refused
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.preempt import MAX_VICTIMS, MAX_VICTIMS_OF_NODE, READ_AT_ONCE
from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Pod
from tests.extender_objects import Document, a_node, on_card, pod_document, state_of
from tests.unit.extender_desk import Desk, LedgersApi

HIGH = 100


def holding(name: str, card: int, units: int, priority: int = 0, **spec: Any) -> Document:
    document = pod_document(name, units, node="node-1", record=on_card(card, units), labels={"app": name[0]})
    document["spec"] |= {"priority": priority, **spec}
    return document


def crowded(*more: Document) -> tuple[VendorState, list[Document]]:
    """Two cards of 16: a-1 to a-4 hold 4 each of card 0, important 4 and e 8 of card 1."""
    pods = [holding(f"a-{number}", 0, 4) for number in range(1, 5)]
    pods += [holding("important", 1, 4, HIGH), holding("e", 1, 8), *more]
    state = state_of(a_node("node-1", 16, 16))
    for each in pods:
        state.pod_applied(msgspec.convert(each, Pod))
    return state, pods


def preempting(units: int, victims: Mapping[str, Sequence[str]], violations: int = 0, **spec: Any) -> bytes:
    meta = {
        name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations} for name, uids in victims.items()
    }
    document = pod_document("p", units)
    document["spec"] |= {"priority": HIGH, **spec}
    return json.dumps({"Pod": document, "NodeNameToMetaVictims": meta}).encode()


def named(body: bytes) -> dict[str, list[str]]:
    victims = json.loads(body)["NodeNameToMetaVictims"]
    return {name: [pod["UID"].removeprefix("uid-") for pod in each["Pods"]] for name, each in victims.items()}


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


@pytest.mark.parametrize(
    ("preemptor", "more", "budgets", "ended"),
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
    preemptor: dict[str, Any], more: list[Document], budgets: list[Document] | None, ended: list[str] | None
) -> None:
    state, pods = crowded()
    reads = LedgersApi(state, *pods, *more, budgets=budgets)
    proposed = ["uid-e", *(each["metadata"]["uid"] for each in more)]
    answer = await Desk((state, None), reads=reads).preempt(preempting(16, {"node-1": proposed}, **preemptor))
    assert named(answer.body) == ({} if ended is None else {"node-1": ended})
    assert answer.result == ("refused" if ended is None else "fits")


@pytest.mark.parametrize(
    ("preemptor", "victim", "ended"),
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
    preemptor: dict[str, Any], victim: dict[str, Any], ended: list[str]
) -> None:
    state, pods = crowded()
    pods[-1]["spec"] |= victim
    reads = LedgersApi(state, *pods)
    answer = await Desk((state, None), reads=reads).preempt(preempting(4, {"node-1": ["uid-e"]}, **preemptor))
    assert named(answer.body) == ({"node-1": ended} if ended else {})


async def test_the_number_of_broken_budgets_is_that_of_the_pods_named() -> None:
    state, pods = crowded()
    reads = LedgersApi(state, *pods, budgets=[budget("a", 1)])
    proposed = ["uid-a-1", "uid-a-2", "uid-a-3", "uid-a-4", "uid-e"]
    answer = await Desk((state, None), reads=reads).preempt(preempting(16, {"node-1": proposed}, violations=3))
    assert json.loads(answer.body)["NodeNameToMetaVictims"]["node-1"]["NumPDBViolations"] == 3
    assert named(answer.body) == {"node-1": FOUR}


async def test_a_few_of_the_best_nodes_are_read_and_no_more() -> None:
    state = state_of(*(a_node(f"node-{number}", 16) for number in range(20)))
    for number in range(20):
        document = pod_document(f"pod-{number}", 16, node=f"node-{number}", record=on_card(0, 16))
        document["spec"]["priority"] = number // 2
        state.pod_applied(msgspec.convert(document, Pod))
    reads = LedgersApi(state)
    victims = {f"node-{number}": [f"uid-pod-{number}"] for number in range(20)}
    answer = await Desk((state, None), reads=reads).preempt(preempting(8, victims))
    assert sorted(named(answer.body)) == sorted(reads.reads) == ["node-0", "node-1", "node-2", "node-3"]
    assert len(reads.reads) == READ_AT_ONCE


@pytest.mark.slow
async def test_while_victims_are_weighed_others_get_their_turns() -> None:
    state = state_of(*(a_node(f"node-{number}", 64) for number in range(20)))
    for node in range(20):
        for number in range(32):
            name = f"pod-{node}-{number}"
            document = pod_document(name, 2, node=f"node-{node}", record=on_card(0, 2, size=64))
            state.pod_applied(msgspec.convert(document, Pod))
    victims = {name: list(node.assignments) for name, node in state.ledger.nodes.items()}
    answering = asyncio.create_task(Desk((state, None)).preempt(preempting(60, victims)), name="preempt")
    turns = 0
    while not answering.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns >= 20 * 32 // 64
    assert {len(uids) for uids in named(answering.result().body).values()} == {30}


async def test_nodes_with_more_victims_than_can_be_weighed_are_left_out() -> None:
    strangers = [f"stranger-{number}" for number in range(MAX_VICTIMS_OF_NODE)]
    victims = {"node-2": ["uid-e", *strangers], "node-1": ["uid-e"]}
    answer = await Desk((crowded()[0], None)).preempt(preempting(16, victims))

    assert named(answer.body) == {"node-1": FOUR}


@pytest.mark.slow
async def test_where_only_nodes_that_were_left_out_might_do_the_call_is_refused_with_the_numbers() -> None:
    strangers = [f"stranger-{number}" for number in range(MAX_VICTIMS_OF_NODE)]
    body = preempting(16, {"node-2": ["uid-e", *strangers]})

    with pytest.raises(Refused, match=f"1 of 1 proposed nodes were left out .* at most {MAX_VICTIMS} victims in all"):
        await Desk((crowded()[0], None)).preempt(body)


@pytest.mark.slow
async def test_no_more_victims_are_weighed_in_one_call_than_a_bound() -> None:
    nodes = MAX_VICTIMS // MAX_VICTIMS_OF_NODE + 1
    victims = {
        f"node-{number}": [f"stranger-{n}" for n in range(MAX_VICTIMS_OF_NODE)] for number in range(2, nodes + 2)
    }
    with pytest.raises(Refused, match=f"1 of {nodes} proposed nodes were left out"):
        await Desk((crowded()[0], None)).preempt(preempting(12, victims))


async def test_a_preemptor_that_is_gone_or_another_pod_ends_no_one() -> None:
    state, pods = crowded()
    body = preempting(16, {"node-1": ["uid-e"]})
    another = pod_document("p", 16, uid="another")
    with pytest.raises(Refused, match="pod default/p has uid 'another', not 'uid-p': it is another pod"):
        await Desk((state, None), reads=LedgersApi(state, *pods, another)).preempt(body)
