"""preempt ends the pods that free a card, of all less important ones, and none for room that comes free anyway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.assignments import PodRef
from gcushare.core.errors import Refused
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.kept_room import RoomAfterNominees, compute_room_left, fits_after_nominees
from gcushare.core.preemption.victims import choose_victims
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.preempt import LEAST_SAMPLE, MAX_VICTIMS, MAX_VICTIMS_OF_NODE, READ_AT_ONCE
from gcushare.vendors import ENFLAME
from tests.builders import asks, asks_whole
from tests.extender_objects import (
    Document,
    a_node,
    a_pod,
    as_pod,
    filter_body,
    known_request,
    on_card,
    pod_document,
    preempt_body,
    state_of,
)
from tests.running import turns_until_done
from tests.unit.extender_desk import Desk, LedgersApi, ended_pods, victims_of
from tests.unit.test_preemption import crowded_nodes

HIGH, LOW = 100, 0


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


def port(number: int, protocol: str = "TCP", **more: str) -> dict[str, Any]:
    """Asks for 4 units and a port of the host; 0 for none."""
    (container,) = asking(4, "0")["containers"]
    return {"containers": [container | {"ports": [{"hostPort": number, "protocol": protocol, **more}]}]}


def init_port(number: int, **more: str) -> dict[str, Any]:
    """The same of an init container."""
    ((container,),) = port(number).values()
    return asking(4, "0") | {"initContainers": [container | {"name": "init", "resources": {}, **more}]}


APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}}}
MANY_BUDGETS = [budget(f"b{number}", 1) for number in range(1000)]
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
        pytest.param({}, [], [*MANY_BUDGETS, budget("a", 0)], None, id="one that allows none, of more than are read"),
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
        pytest.param(port(80, hostIP="10.0.0.1"), port(80, hostIP="10.0.0.2"), [], id="the same port elsewhere"),
        pytest.param(port(80, hostIP="10.0.0.1"), port(80, hostIP="10.0.0.1"), ["e"], id="a port of one address"),
        pytest.param(port(80, hostIP="10.0.0.1"), port(80, hostIP=""), ["e"], id="a port of all addresses"),
        pytest.param(port(80), init_port(80), [], id="the port of an init container, which has ended"),
        pytest.param(port(80), init_port(80, restartPolicy="Always"), ["e"], id="the port of a sidecar"),
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
    assert await turns_until_done(answering) >= 20 * 32 // 64
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


class Cluster:
    """node-1 with cards of 16 units, and pods on them that were created in the order in which they are named."""

    def __init__(self, cards: int) -> None:
        self.state: VendorState = state_of(a_node("node-1", *[16] * cards))
        self._held: dict[str, Document] = {}

    def hold(self, name: str, card: int, units: int, priority: int = LOW) -> None:
        created = f"2026-01-01T00:00:{len(self._held):02}Z"
        record = on_card(card, units)
        self._held[name] = pod_document(
            name, units, node="node-1", record=record, priority=priority, creationTimestamp=created
        )
        self.state.pod_applied(as_pod(self._held[name]))

    def leave(self, name: str) -> None:
        self._held[name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
        self.state.pod_applied(as_pod(self._held[name]))

    def nominate(self, name: str, units: int, priority: int = HIGH) -> None:
        self.state.pod_applied(a_pod(name, units, priority=priority, nominated="node-1"))

    async def preempt(self, units: int, *proposed: str, priority: int = HIGH) -> list[str] | None:
        """The victims that preempt keeps; None where it leaves the node out."""
        document = pod_document("preemptor", units, priority=priority)
        return (await victims_of(self.state, document, {"node-1": proposed})).get("node-1")


@pytest.mark.parametrize("is_seen", [True, False])
async def test_the_room_of_an_earlier_nominee_is_not_counted_on_although_its_victim_is_proposed_again(
    *, is_seen: bool
) -> None:
    """Whether the deletion of that victim was seen already, or is only what preempt answered."""
    cluster = Cluster(2)
    cluster.hold("stays", 0, 16)
    cluster.hold("younger", 1, 16)
    cluster.nominate("first", 16)
    if is_seen:
        cluster.leave("younger")
    else:
        cluster.state.nominations.expect(known_request(cluster.state, "first"), {"node-1": ["uid-younger"]})

    assert await cluster.preempt(16, "younger", "stays") == ["stays"]
    assert await cluster.preempt(16, "younger", "stays", priority=HIGH + 1) == ["younger"]


async def test_no_one_ends_if_the_only_card_that_fits_is_kept_for_a_nominee() -> None:
    cluster = Cluster(3)
    for card in (1, 2):
        cluster.hold(f"low-{card}", card, 8)
        cluster.hold(f"high-{card}", card, 8, HIGH)
    cluster.nominate("first", 16)

    assert await cluster.preempt(16, "low-1", "low-2") is None
    assert await cluster.preempt(16, "low-1", "low-2", priority=HIGH + 1) is None, "it may take the room"
    assert await cluster.preempt(8, "low-1", "low-2") == ["low-2"], "next to a pod that stays"


async def test_a_pod_waits_for_room_that_comes_free_anyway_and_no_one_else_ends() -> None:
    cluster = Cluster(2)
    cluster.hold("leaves", 0, 16)
    cluster.hold("younger", 1, 16)
    cluster.leave("leaves")

    assert await cluster.preempt(16, "younger", "leaves") == ["leaves"]
    assert await cluster.preempt(16, "younger") == ["leaves"]


@pytest.mark.parametrize("asked", [1, LEAST_SAMPLE - 1, LEAST_SAMPLE])
async def test_no_one_ends_at_once_where_a_node_got_room_or_may_not_have_been_asked_about(asked: int) -> None:
    names = [f"node-{number}" for number in range(asked)]
    state = state_of(a_node("other", 16), *(a_node(name, 16) for name in names))
    pods = [pod_document(f"on-{name}", 16, node=name, record=on_card(0, 16)) for name in names]
    for each in pods:
        state.pod_applied(as_pod(each))
    desk = Desk((state, None), reads=LedgersApi(state, *pods))
    high, proposals = pod_document("p", 16, priority=HIGH), {names[0]: [f"on-{names[0]}"]}
    ended = [proposals, proposals] if asked < LEAST_SAMPLE else [{}, proposals]  # no sample: other resources lack
    desk.filter(filter_body(high, names))
    assert [ended_pods((await desk.preempt(preempt_body(high, proposals))).body) for _ in ended] == ended

    state.put_off.clear()
    state.pod_deleted(f"uid-on-{names[-1]}")
    proposals = {names[0]: [f"on-{names[0]}"]} if asked > 1 else {}
    assert not ended_pods((await desk.preempt(preempt_body(high, proposals))).body), "kube-scheduler asked about it"


async def test_where_none_of_the_leaving_was_proposed_the_fewest_others_are_named() -> None:
    """An answer without victims is an error to the scheduler."""
    cluster = Cluster(3)
    cluster.hold("leaves", 0, 16, HIGH)
    cluster.hold("older", 1, 16)
    cluster.hold("younger", 2, 16)
    cluster.leave("leaves")

    assert await cluster.preempt(16, "younger", "older") == ["younger"]
    cluster.nominate("first", 8, HIGH + 1)
    assert await cluster.preempt(8, "younger", "older") is None, "what the nominee leaves of the card is enough"


async def test_what_a_leaving_pod_gives_back_counts_with_what_others_do() -> None:
    cluster = Cluster(1)
    for name, priority in (("leaves", HIGH), ("older", LOW), ("younger", LOW)):
        cluster.hold(name, 0, 5, priority)
    cluster.leave("leaves")

    assert await cluster.preempt(11, "older", "younger") == ["younger"]


@pytest.mark.slow
@given(
    crowded_nodes(),
    st.integers(1, 16),
    st.booleans(),
    st.lists(st.one_of(st.integers(1, 16).map(asks), st.just(asks_whole())), max_size=2),
    st.data(),
)
def test_those_chosen_are_needed_and_enough_with_nominees_once_the_leaving_have_gone(
    crowd: tuple[NodeState, list[PodRef]], units: int, whole: bool, nominees: Sequence[Any], data: st.DataObject
) -> None:
    node, victims = crowd
    leaving = frozenset(data.draw(st.sets(st.sampled_from([each.uid for each in victims])))) if victims else frozenset()
    left = compute_room_left(node, nominees, leaving)
    request = asks_whole() if whole else asks(units)

    def fits_after(ended: Sequence[PodRef]) -> bool:
        """The nominees' cards as they are placed now."""
        trial = node.copy()
        for uid in (*leaving, *(each.uid for each in ended)):
            trial.remove(uid)
        gained = {
            index: room + sum(g.units for each in ended for g in node.assignments[each.uid].grants if g.index == index)
            for index, room in left.items()
        }
        return fits_after_nominees(trial, request, gained)

    chosen = choose_victims(node, request, victims, room=RoomAfterNominees(leaving, left))

    staying = [each for each in victims if each.uid not in leaving]
    assert (chosen is not None) == fits_after(staying)
    if chosen is not None:
        assert fits_after(chosen)
        assert not any(fits_after([each for each in chosen if each is not spared]) for spared in chosen)
        assert not leaving.intersection(each.uid for each in chosen)


NOMINEES = 64


class Crowd:
    """A nominee on each node, equally important, and waiting pods; each pass reads the clock once."""

    def __init__(self) -> None:
        self.passes = 0
        self.state: VendorState = state_of(
            *(a_node(f"node-{number}", 16) for number in range(NOMINEES)), monotonic=self._now_s
        )
        self.nominees = [self.see(f"nominee-{number}", 16, nominated=f"node-{number}") for number in range(NOMINEES)]
        self.passes = 0

    def _now_s(self) -> float:
        self.passes += 1
        return 0.0

    def see(self, name: str, units: int, *, nominated: str = "") -> SchedulingRequest:
        self.state.pod_applied(a_pod(name, units, priority=100, nominated=nominated))
        return known_request(self.state, name)


def test_all_nominees_are_gone_through_once_whatever_their_nodes() -> None:
    crowd = Crowd()
    closed = crowd.state.nominations.closed_to(crowd.see("late", 8))
    assert (closed, crowd.passes) == (frozenset(crowd.state.ledger.nodes), 1)
    assert len(crowd.state.nominations.closed_to(crowd.nominees[9])) == 9, "those nominated before it"


@pytest.mark.slow
async def test_pods_that_ask_alike_are_found_by_one_look_but_for_each_nominee_and_others_get_their_turns() -> None:
    crowd = Crowd()
    late = [crowd.see(f"late-{number}", 16) for number in range(NOMINEES)]
    explains = ExplainService(crowd.state)
    question = explains.question_of(late[0])
    crowd.passes = 0
    seeking = asyncio.create_task(explains.find_alike(question, [*crowd.nominees, *late]), name="seek")
    turns = await turns_until_done(seeking)

    assert seeking.result() == late, "to each nominee fewer nodes are closed"
    assert crowd.passes == NOMINEES + 1
    assert turns >= NOMINEES
