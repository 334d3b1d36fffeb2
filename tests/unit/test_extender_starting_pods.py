"""Pods whose calls of the kubelet look alike, and whose answers differ, start on a node one after the other."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from gcushare.core.errors import Refused
from gcushare.core.ledger import Ledger
from gcushare.core.matching import KubeletCalls
from gcushare.core.requests import CardRequest, CardSelection, ContainerKind
from gcushare.scheduler_extender.state.starting_pods import StartingPods
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.scheduler_extender.verbs.filter import STARTING_REASON
from gcushare.wire.annotations import AVOID_CARDS, CARDS, COMPUTE_SHARE, MEMORY_LIMIT, USE_CARDS
from tests.extender_objects import Document, a_pod, as_pod, pod_document
from tests.unit.extender_binds import Rig
from tests.unit.extender_desk import answer_of

PATIENT = BindTimes(total_s=60.0, attempt_s=0.1)
APP, INIT = ContainerKind.APP, ContainerKind.INIT


def calls(*amounts: int, cards: int = 1, whole: bool = False, use: tuple[str, ...] = ()) -> KubeletCalls:
    selection = CardSelection(use) if use else None
    request = CardRequest(0, sum(amounts), whole=True) if whole else CardRequest(sum(amounts), cards, False, selection)
    return KubeletCalls(tuple((APP, amount) for amount in amounts), request)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param(calls(4), calls(4), False, id="equal pods may change places"),
        pytest.param(calls(4), calls(5), False, id="the number tells them apart"),
        pytest.param(calls(4), calls(4, cards=2), True, id="one card or two"),
        pytest.param(calls(4), calls(4, use=("0",)), True, id="another choice of cards"),
        pytest.param(calls(4), calls(4, 4), True, id="more containers"),
        pytest.param(calls(3, 4), calls(4), True, id="a later container asks for the same number"),
        pytest.param(calls(3, 4), calls(4, 3), True, id="the same numbers in another order"),
        pytest.param(calls(1), calls(1, whole=True), False, id="memory and whole cards are two resources"),
        pytest.param(calls(2, whole=True), calls(2, 1, whole=True), True, id="whole cards of more containers"),
        pytest.param(
            KubeletCalls(((INIT, 4), (APP, 4)), CardRequest(4)),
            KubeletCalls(((APP, 4),), CardRequest(4)),
            True,
            id="an init container",
        ),
    ],
)
def test_calls_are_mistakable_if_numbers_are_equal_and_answers_differ(
    one: KubeletCalls, other: KubeletCalls, *, alike: bool
) -> None:
    assert one.is_mistakable_for(other) is other.is_mistakable_for(one) is alike


VARIANTS = {
    "none": {},
    "two": {CARDS: "2"},
    "first": {USE_CARDS: "0"},
    "second": {USE_CARDS: "1"},
    "not-first": {AVOID_CARDS: "0"},
    "strongest": {USE_CARDS: "strongest"},
    "bursting": {MEMORY_LIMIT: "8"},
    "sharing": {COMPUTE_SHARE: "proportional"},
}


@pytest.mark.parametrize("second", [name for name in VARIANTS if name != "none"])
@pytest.mark.parametrize("by_kubelet", [False, True])
async def test_the_second_is_bound_once_the_first_has_started(second: str, *, by_kubelet: bool) -> None:
    rig = Rig(a_pod("none", 4), a_pod(second, 4, annotations=VARIANTS[second]), times=PATIENT)
    await rig.bind("none")
    rig.cluster.tell(rig.state)
    waiting = asyncio.create_task(rig.bind(second))
    await asyncio.sleep(0.01)
    assert [ref.name for ref, _ in rig.cluster.bindings] == ["none"]

    rig.cluster.start("none", by_kubelet=by_kubelet)
    rig.cluster.tell(rig.state)
    await waiting
    assert [ref.name for ref, _ in rig.cluster.bindings] == ["none", second]
    rig.check_truth()


async def test_pods_with_equal_rules_are_bound_at_once() -> None:
    rig = Rig(*(a_pod(name, 4, annotations={USE_CARDS: "0"}) for name in "abc"))
    await asyncio.gather(*(rig.bind(name) for name in "abc"))
    assert len(rig.cluster.bindings) == 3


async def test_a_burst_of_mixed_pods_is_bound_in_the_order_of_the_calls() -> None:
    pods = [a_pod(name, 2, annotations=rule) for name, rule in VARIANTS.items() if name not in ("bursting", "sharing")]
    rig = Rig(*pods, times=PATIENT)
    binds = [asyncio.create_task(rig.bind(pod.metadata.name)) for pod in pods]
    for number, pod in enumerate(pods):
        await asyncio.sleep(0.005)
        assert len(rig.cluster.bindings) == number + 1
        rig.cluster.start(pod.metadata.name)
        rig.cluster.tell(rig.state)
    await asyncio.gather(*binds)
    rig.check_truth()


@pytest.mark.parametrize("end", ["failed", "deleted", "terminating", "bound elsewhere"])
async def test_a_pod_that_the_kubelet_will_not_start_keeps_nothing_waiting(end: str) -> None:
    rig = Rig(a_pod("none", 4), a_pod("two", 4, annotations={CARDS: "2"}), times=PATIENT)
    await rig.bind("none", "node-2" if end == "bound elsewhere" else "node-1")
    rig.cluster.tell(rig.state)
    if end == "failed":
        pod = rig.cluster.pods["default", "none"]
        rig.cluster.put(replace(pod, status=replace(pod.status, phase="Failed")))
    elif end == "terminating":
        pod = rig.cluster.pods["default", "none"]
        rig.cluster.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:30Z")))
    elif end == "deleted":
        del rig.cluster.pods["default", "none"]
    rig.cluster.tell(rig.state)
    await rig.bind("two")
    assert rig.cluster.pods["default", "two"].is_bound


async def test_a_pod_waits_for_a_first_one_whose_binding_is_still_on_its_way() -> None:
    rig = Rig(a_pod("none", 4), a_pod("two", 4, annotations={CARDS: "2"}), times=PATIENT)
    rig.cluster.bindings_travel = asyncio.Event()
    binds = [asyncio.create_task(rig.bind(name)) for name in ("none", "two")]
    await asyncio.sleep(0.01)
    assert [ref.name for ref, _ in rig.cluster.bindings] == ["none"]
    rig.cluster.bindings_travel.set()
    await binds[0]
    rig.cluster.tell(rig.state)
    rig.cluster.start("none")
    rig.cluster.tell(rig.state)
    await binds[1]


async def test_a_first_one_that_never_starts_is_named_and_the_room_is_free_again() -> None:
    rig = Rig(a_pod("none", 4), a_pod("two", 4, annotations={CARDS: "2"}))
    await rig.bind("none")
    rig.cluster.tell(rig.state)
    with pytest.raises(Refused, match="pod default/none starts on node node-1 and asks the kubelet"):
        await rig.bind("two")
    assert rig.used() == [4, 0]
    await rig.bind("two", "node-2")
    rig.check_truth()


def filtered(rig: Rig, pod: Document, most: int | None) -> tuple[list[str], dict[str, str]]:
    found = answer_of(rig.state, pod, "node-1", "node-2", most=most)
    return found["NodeNames"], found["FailedNodes"]


@pytest.mark.parametrize("most", [None, 1, 20])
async def test_filter_names_other_nodes_meanwhile_and_the_busy_one_if_there_is_no_other(most: int | None) -> None:
    second = pod_document("two", 4, annotations={CARDS: "2"})
    rig = Rig(a_pod("none", 4), as_pod(second))
    await rig.bind("none")
    rig.cluster.tell(rig.state)
    nodes, reasons = filtered(rig, second, most)
    assert nodes == ["node-2"]
    assert reasons == ({"node-1": STARTING_REASON} if most is None else {})
    rig.state.node_deleted("node-2")
    assert filtered(rig, second, most)[0] == ["node-1"]
    rig.cluster.start("none")
    rig.cluster.tell(rig.state)
    assert filtered(rig, second, most)[0] == ["node-1"]


def test_a_pod_without_an_assignment_is_not_ahead_of_any() -> None:
    starting = StartingPods(Ledger())
    starting.add("gone", "node-1", calls(4))
    starting.add("two", "node-1", calls(4, cards=2))
    assert starting.find_ahead("two", "node-1") is None
