"""Refused and waiting pods are explained with the numbers, by where they are asked about, never at others' expense."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gcushare.cluster.explaining import Question
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.explain.explanation import MAX_REMEDIES_TRIED, Explanation
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.explain.failed_scheduling_events import (
    BURST_TOKENS,
    NODES_PER_TOKEN,
    REFUSED_REASON,
    TOKENS_PER_S,
    FailedSchedulingReporter,
)
from gcushare.scheduler_extender.explain.pending_reasons import (
    MAX_SEARCHED_SETS,
    MAX_SEARCHED_SHAPES,
    PendingReason,
    count_pending,
)
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.pod_stores import LastFilteredNodes
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.annotations import CARDS, USE_CARDS
from gcushare.wire.documents.explain import AskedDocument
from gcushare.wire.objects import Node, Pod
from tests.extender_objects import (
    a_node,
    a_pod,
    as_pod,
    filter_body,
    known_request,
    node_document,
    on_card,
    pod_document,
    request_of,
    state_of,
)
from tests.running import running, turns_until_done
from tests.unit.extender_desk import Desk
from tests.unit.kube_time import VirtualTime
from tests.unit.noted_events import Noted


class Bench:
    """A reporter on virtual time."""

    def __init__(self, state: VendorState) -> None:
        self.state = state
        self.time = VirtualTime()
        self.noted = Noted()
        self.explains = ExplainService(state)
        self.reporter = FailedSchedulingReporter(self.explains, self.noted, clock=self.time.clock())

    def refuse(self, name: str, units: int) -> None:
        """Let filter refuse a pod that the watch has brought."""
        pod = a_pod(name, units)
        self.state.pod_applied(pod)
        self.reporter.on_refused(request_of(pod))

    async def heard(self) -> None:
        async with asyncio.timeout(60):
            await self.noted.rung.wait()
        self.noted.rung.clear()


def small_state() -> VendorState:
    state = state_of(a_node("node-1", 16))
    state.pod_applied(a_pod("x", 10, node="node-1", record=on_card(0, 10)))
    return state


async def test_a_refused_pod_is_reported_with_the_numbers() -> None:
    bench = Bench(small_state())
    async with running(bench.reporter.run(), "reporter"):
        bench.refuse("a", 12)
        await bench.heard()

    ((name, reason, message),) = bench.noted.events
    assert (name, reason) == ("a", REFUSED_REASON)
    assert message.startswith("needs 12 GB in one card; best card free: 6 GB (card 0 of node-1); total free 6 of 16 GB")


async def test_each_pod_is_reported_once_a_minute() -> None:
    bench = Bench(small_state())
    async with running(bench.reporter.run(), "reporter"):
        for wait_s in (0.0, 30.0, 29.9):
            bench.time.now_s += wait_s
            bench.refuse("a", 12)
        await bench.heard()
        bench.refuse("b", 12)
        await bench.heard()
        bench.time.now_s += 0.1
        bench.refuse("a", 12)
        await bench.heard()

    assert [name for name, _, _ in bench.noted.events] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("change", "other"),
    [
        pytest.param(lambda state: state.pod_deleted("uid-x"), 20, id="it fits"),
        pytest.param(
            lambda state: state.pod_applied(a_pod("a", 4, node="node-1", record=on_card(0, 4))),
            12,
            id="it has its cards",
        ),
        pytest.param(lambda state: state.pod_deleted("uid-a"), 12, id="it is gone"),
    ],
)
async def test_a_pod_that_waits_no_more_when_it_is_its_turn_is_not_reported(
    change: Callable[[VendorState], None], other: int
) -> None:
    """Where the other pod asks alike, both share one explanation, and only one of them hears it."""
    bench = Bench(small_state())
    bench.refuse("a", 12)
    bench.refuse("b", other)
    change(bench.state)
    async with running(bench.reporter.run(), "reporter"):
        await bench.heard()
        await bench.time.settle()

    assert [name for name, _, _ in bench.noted.events] == ["b"]


async def test_what_was_said_of_a_node_whose_cards_were_not_known_is_corrected_once_they_are() -> None:
    """The kubelet of a node that has just joined counts its cards before the extender has read their record."""
    bench = Bench(small_state())
    bench.state.refused_on.record("uid-a", frozenset({"node-1", "node-2"}))
    async with running(bench.reporter.run(), "reporter"):
        bench.refuse("a", 20)
        await bench.heard()
        bench.state.node_applied(a_node("node-3", 8))
        bench.state.node_applied(a_node("node-2", 16))
        await bench.heard()
        bench.state.node_applied(a_node("node-2", 16, 16))
        await bench.time.settle()

    first, second = (message for _, _, message in bench.noted.events)
    assert first == (
        "needs 20 GB in one card; best card free: 6 GB (card 0 of node-1); total free 6 of 16 GB; 1 node: no card that "
        "is large enough; 1 node: its cards are not known yet, or cannot be read; it may fit once the cards of node-2 "
        "are known"
    )
    assert second.endswith("it can never fit: the largest usable card has 16 GB, of the nodes asked about")
    assert bench.noted.corrections == [second]


async def test_nothing_is_corrected_of_a_pod_that_fits_once_the_cards_are_known() -> None:
    bench = Bench(small_state())
    bench.state.refused_on.record("uid-a", frozenset({"node-2"}))
    async with running(bench.reporter.run(), "reporter"):
        bench.refuse("a", 12)
        await bench.heard()
        bench.state.node_applied(a_node("node-2", 16))
        await bench.time.settle()

    ((_, _, message),) = bench.noted.events
    assert message.endswith("it may fit once the cards of node-2 are known")


async def test_an_explanation_that_cards_overtook_is_not_reported() -> None:
    bench = Bench(small_state())
    bench.state.refused_on.record("uid-a", frozenset({"node-2"}))
    gather = bench.explains.gather

    async def gather_late(question: Question) -> Explanation:
        found = await gather(question)
        bench.state.node_applied(a_node("node-2", 8))
        return found

    bench.explains.gather = gather_late  # type: ignore[method-assign]
    async with running(bench.reporter.run(), "reporter"):
        bench.refuse("a", 12)
        await bench.heard()

    ((_, _, message),) = bench.noted.events
    assert "node-2 are known" not in message
    assert message.startswith("needs 12 GB in one card; kube-scheduler asked about 1 of 2 nodes")


@pytest.mark.slow
async def test_nodes_whose_cards_stay_unknown_are_bounded() -> None:
    bench = Bench(small_state())
    async with running(bench.reporter.run(), "reporter"):
        for number in range(70):
            bench.state.refused_on.record(f"uid-p{number}", frozenset({f"new-{number:02}"}))
            bench.refuse(f"p{number}", 12)
            await bench.heard()
        for number in range(70):
            bench.state.node_applied(a_node(f"new-{number:02}", 8))
        for _ in range(140):
            await bench.time.pass_(0.1)

    assert [name for name, _, _ in bench.noted.events[70:]] == [f"p{number}" for number in range(6, 70)]


@pytest.mark.slow
async def test_a_crowd_of_refused_pods_is_bounded() -> None:
    bench = Bench(small_state())
    for number in range(1000):
        bench.refuse(f"p{number}", 12)

    assert bench.noted.events == []
    assert bench.reporter.counters["dropped"] == 1000 - 256
    async with running(bench.reporter.run(), "reporter"):
        while len(bench.noted.events) < 256:
            await bench.heard()


# A large cluster, again and again.
@pytest.mark.slow
async def test_explaining_a_large_cluster_again_and_again_is_paced() -> None:
    nodes = NODES_PER_TOKEN * BURST_TOKENS // 2
    state = state_of(a_node("node-1", 16), *(a_node(f"node-{number}", 8) for number in range(2, nodes + 1)))
    bench = Bench(state)
    for units in range(20, 26):  # Each its own explanation.
        bench.refuse(f"asks-{units}", units)
    reported = bench.noted.events
    async with running(bench.reporter.run(), "reporter"):
        while len(reported) < 2:
            await bench.heard()
        for _ in range(nodes):  # As many turns as a third explanation would take.
            await asyncio.sleep(0)
        assert len(reported) == 2
        await bench.time.pass_(nodes / NODES_PER_TOKEN / TOKENS_PER_S)
        while len(reported) < 3:
            await bench.heard()


@pytest.mark.parametrize("seen", [True, False], ids=["seen by the watch", "seen by filter and bind alone"])
async def test_a_pod_whose_binding_is_under_way_is_explained_by_its_card(*, seen: bool) -> None:
    state = state_of(a_node("node-1", 16))
    if seen:
        state.pod_applied(a_pod("a", 4))
    asked = request_of(a_pod("a", 4))
    state.ledger.reserve(asked.pod, "node-1", asked.cards, state.preferences.rank_cards(asked, None))

    assert (await ExplainService(state).explain("default", "a")).state == "bound"


async def test_explaining_a_large_cluster_gives_others_a_turn() -> None:
    state = state_of(*(a_node(f"node-{number}", 16) for number in range(300)))
    state.pod_applied(a_pod("a", 20))
    explaining = asyncio.create_task(ExplainService(state).explain("default", "a"))
    turns = await turns_until_done(explaining)

    assert turns >= 4
    assert explaining.result().classes[0].nodes == 300


@pytest.mark.slow
async def test_while_a_node_is_weighed_and_the_next_others_get_a_turn() -> None:
    state = state_of(*(a_node(f"node-{number}", 16) for number in range(MAX_REMEDIES_TRIED)))
    for number in range(MAX_REMEDIES_TRIED):
        state.pod_applied(a_pod(f"p{number}", 10, node=f"node-{number}", record=on_card(0, 10)))
    state.pod_applied(a_pod("a", 12))
    explaining = asyncio.create_task(ExplainService(state).explain("default", "a"), name="explain")
    turns = await turns_until_done(explaining)

    assert turns >= MAX_REMEDIES_TRIED
    assert explaining.result().nodes_weighed == MAX_REMEDIES_TRIED


async def test_what_was_found_is_recalled_until_a_node_changes() -> None:
    state = state_of(a_node("node-1", 16))
    for name in ("a", "b"):
        state.pod_applied(a_pod(name, 20))
    service = ExplainService(state)
    first, second = (service.question_of(known_request(state, name)) for name in "ab")
    assert (first, service.cost_of(first)) == (second, 1)

    found = await service.gather(first)
    assert service.cost_of(second) == 0
    assert await service.gather(second) is found

    state.node_applied(a_node("node-2", 16))
    assert service.cost_of(first) == 2
    assert (await service.gather(first)).classes[0].nodes == 2


def restricted() -> VendorState:
    """A waiting pod that the scheduler asked about with one node, which is full, while the other is free."""
    state = state_of(a_node("node-a", 16), a_node("node-b", 16))
    state.pod_applied(a_pod("x", 16, node="node-a", record=on_card(0, 16)))
    state.pod_applied(a_pod("a", 12))
    state.refused_on.record("uid-a", frozenset({"node-a"}))
    return state


async def test_a_pod_is_explained_among_the_nodes_that_the_scheduler_asked_about() -> None:
    document = await ExplainService(restricted()).explain("default", "a")

    assert (document.state, document.can_ever_fit, document.largest_that_fits_now) == ("waits", True, 0)
    assert document.asked == AskedDocument(nodes=1, known=2, fit_elsewhere=1, examples=("node-b",))
    assert [each.examples for each in document.classes] == [("node-a",), ("node-b",)]
    assert document.summary.startswith(
        "needs 12 GB in one card; kube-scheduler asked about 1 of 2 nodes; 1 of the others (node-b) has room, but "
        "something else keeps the pod off: another resource, a volume, a port, affinity to pods; the largest request"
    )


async def test_what_filter_was_asked_is_what_explain_speaks_of() -> None:
    state = restricted()
    state.refused_on.forget("uid-a")
    desk = Desk((state, None))
    desk.filter(filter_body(pod_document("a", 12), ["node-a"]))
    assert (await desk.dispatcher.explain("default", "a")).state == "waits"
    desk.filter(filter_body(pod_document("a", 12), ["node-a", "node-b"]))  # It fits there: nothing new is remembered.
    assert state.refused_on.get("uid-a") == frozenset({"node-a"})
    state.pod_deleted("uid-a")
    assert state.refused_on.get("uid-a") is None


class TestNames:
    async def test_a_pod_is_found_by_its_namespace_and_name_wherever_it_is(self) -> None:
        state = state_of(a_node("node-1", 16))
        service = ExplainService(state)
        state.pod_applied(a_pod("a", 4, namespace="other", uid="uid-other"))
        state.pod_applied(a_pod("a", 4))
        assert [(await service.explain(space, "a")).state for space in ("other", "default")] == ["fits", "fits"]

        state.pod_applied(a_pod("a", 4, node="node-1", record=on_card(0, 4)))
        assert (await service.explain("default", "a")).state == "bound"

        state.pod_deleted("uid-a")
        assert service.find("default", "a") is None

    async def test_a_successor_of_the_same_name_is_the_one_matched(self) -> None:
        state = state_of(a_node("node-1", 16))
        state.pod_applied(a_pod("a", 4, node="node-1", record=on_card(0, 4)))
        state.pod_applied(a_pod("a", 4, uid="uid-successor"))
        service = ExplainService(state)
        assert (await service.explain("default", "a")).uid == "uid-successor"

        state.pod_deleted("uid-a")
        assert (await service.explain("default", "a")).uid == "uid-successor"
        state.pod_deleted("uid-successor")
        assert service.find("default", "a") is None


class TestAskedNodes:
    def test_too_many_names_or_pods_push_the_oldest_out(self) -> None:
        asked = LastFilteredNodes(max_pods=3, max_names=4)
        for uid, names in (("a", "xy"), ("b", "xz"), ("c", "w")):
            asked.record(uid, frozenset(names))
        assert [asked.get(uid) for uid in "abc"] == [None, {"x", "z"}, {"w"}]
        for uid in "def":
            asked.record(uid, frozenset("w"))
        assert [asked.get(uid) for uid in "bcdef"] == [None, None, {"w"}, {"w"}, {"w"}]

    def test_a_pod_has_the_set_of_its_last_refusal_or_none(self) -> None:
        asked = LastFilteredNodes(max_names=2)
        asked.record("a", frozenset("x"))
        asked.record("a", frozenset("y"))
        assert asked.get("a") == frozenset("y")
        asked.record("a", frozenset("xyz"))
        assert asked.get("a") is None
        asked.record("b", frozenset("xy"))
        assert asked.get("b") == frozenset("xy")


def labelled(name: str, *sizes: int, labels: dict[str, str], spec: dict[str, Any] | None = None) -> Node:
    document = node_document(name, *sizes)
    document["metadata"]["labels"], document["spec"] = labels, spec or {}
    return msgspec.convert(document, Node)


class TestRules:
    @staticmethod
    def ask(**spec: Any) -> ExplainService:
        """A pod of 18 and what its spec says of nodes; n1 has 16 and 16, n2 8 and 24, and a label."""
        state = state_of(a_node("n1", 16, 16), a_node("n2", 8, 24))
        state.node_applied(labelled("n2", 8, 24, labels={"pool": "b"}))
        pod = pod_document("a", 18)
        pod["spec"].update(spec)
        state.pod_applied(as_pod(pod))
        return ExplainService(state)

    async def test_the_answer_follows_a_node_whose_labels_taints_or_cordon_changed(self) -> None:
        service = self.ask(nodeSelector={"pool": "b"})
        labels = {"pool": "b"}
        for spec, given, found in (
            ({"unschedulable": True}, labels, "waits"),
            ({}, labels | {"zone": "z"}, "fits"),
            ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, labels, "waits"),
            ({}, {}, "waits"),
        ):
            service._state.node_applied(labelled("n2", 8, 24, labels=given, spec=spec))
            assert (await service.explain("default", "a")).state == found

    async def test_a_gated_pod_is_not_said_to_fit_and_its_gates_are_named(self) -> None:
        gates = [{"name": "quota.example.com"}, {"name": "b"}]
        document = await self.ask(schedulingGates=gates).explain("default", "a")

        assert (document.state, document.gates) == ("gated", ("quota.example.com", "b"))
        assert document.summary == (
            "kube-scheduler leaves it alone until its scheduling gates 'quota.example.com', 'b' are removed; needs 18 "
            "GB in one card; it fits now"
        )


BOTH = (SERVES_MEMORY, SERVES_WHOLE)


def reasons(state: VendorState) -> dict[PendingReason, int]:
    """The reasons that anybody waits for."""
    totals = ClusterTotals(state.ledger, state.changes)
    return {reason: pods for reason, pods in count_pending(state, totals.by_unit().values()).items() if pods}


def ask_for_all(state: VendorState) -> None:
    """What the scheduler does with pods that wait, again and again."""
    for waiting in state.waiting.values():
        if isinstance(waiting, SchedulingRequest):
            state.indexes.get(waiting.shape)


def half_full() -> VendorState:
    """Two nodes with two cards of 16 units; a pod holds 10 units of each card."""
    state = state_of(a_node("node-1", 16, 16, modes=BOTH), a_node("node-2", 16, 16, modes=BOTH))
    for number, (node, index) in enumerate((n, i) for n in ("node-1", "node-2") for i in (0, 1)):
        state.pod_applied(a_pod(f"holder-{number}", 10, node=node, record=on_card(index, 10)))
    return state


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(a_pod("p", 6), PendingReason.FITS, id="a card has room"),
        pytest.param(a_pod("p", 7), PendingReason.FRAGMENTED, id="four cards together have room"),
        pytest.param(a_pod("p", 16), PendingReason.FRAGMENTED, id="a whole card's units"),
        pytest.param(a_pod("p", 17), PendingReason.NEVER, id="more than any card"),
        pytest.param(a_pod("p", 12, annotations={CARDS: "2"}), PendingReason.FITS, id="two cards of a node have room"),
        pytest.param(a_pod("p", 20, annotations={CARDS: "2"}), PendingReason.FRAGMENTED, id="no two cards of a node"),
        pytest.param(a_pod("p", 30, annotations={CARDS: "2"}), PendingReason.FULL, id="more than is free in all"),
        pytest.param(a_pod("p", 30, annotations={CARDS: "3"}), PendingReason.NEVER, id="more cards than a node has"),
        pytest.param(
            a_pod("p", 7, annotations={USE_CARDS: "1"}), PendingReason.FULL, id="the cards it allows are taken"
        ),
        pytest.param(a_pod("p", None, whole=1), PendingReason.FULL, id="no card is empty"),
        pytest.param(a_pod("p", "many"), PendingReason.REFUSED, id="no number"),
    ],
)
def test_a_pod_waits_for_one_reason(pod: Pod, reason: PendingReason) -> None:
    state = half_full()
    state.pod_applied(pod)
    ask_for_all(state)
    assert reasons(state) == {reason: 1}


def test_empty_cards_on_different_nodes_are_fragmented_for_a_pod_that_wants_two() -> None:
    state = state_of(a_node("node-1", 16, 16, modes=BOTH), a_node("node-2", 16, 16, modes=BOTH))
    for node in ("node-1", "node-2"):
        state.pod_applied(a_pod(f"holder-{node}", 1, node=node, record=on_card(0, 1)))
    state.pod_applied(a_pod("one", None, whole=1))
    state.pod_applied(a_pod("two", None, whole=2))
    assert reasons(state) == {PendingReason.FITS: 1, PendingReason.FRAGMENTED: 1}


def test_a_pod_whose_binding_is_under_way_waits_no_more() -> None:
    state = state_of(a_node("node-1", 16))
    state.pod_applied(a_pod("p", 4))
    assert reasons(state) == {PendingReason.FITS: 1}
    waiting = state.waiting["uid-p"]
    assert isinstance(waiting, SchedulingRequest)
    state.ledger.reserve(waiting.pod, "node-1", waiting.cards, state.preferences.rank_cards(waiting, None))
    assert reasons(state) == {}


def test_of_choosy_pods_only_those_that_the_scheduler_asked_for_lately_are_judged() -> None:
    state = state_of(a_node("node-1", 16))
    for number in range(MAX_SEARCHED_SHAPES + 5):
        state.pod_applied(a_pod(f"p-{number}", 1, annotations={USE_CARDS: f"0,{number + 1}"}))
    state.pod_applied(a_pod("plain", 1))
    assert reasons(state) == {PendingReason.FITS: 1, PendingReason.UNKNOWN: MAX_SEARCHED_SHAPES + 5}
    ask_for_all(state)
    assert reasons(state) == {PendingReason.FITS: 1 + MAX_SEARCHED_SHAPES, PendingReason.UNKNOWN: 5}


class TestElsewhere:
    def test_room_that_the_scheduler_did_not_ask_about_is_elsewhere(self) -> None:
        state = state_of(a_node("node-a", 16), a_node("node-b", 16))
        state.pod_applied(a_pod("x", 16, node="node-a", record=on_card(0, 16)))
        for name, names in (("p", {"node-a"}), ("q", {"node-a", "node-b"})):
            state.pod_applied(a_pod(name, 12))
            state.refused_on.record(f"uid-{name}", frozenset(names))
        state.pod_applied(a_pod("r", 12))
        ask_for_all(state)
        assert reasons(state) == {PendingReason.ELSEWHERE: 1, PendingReason.FITS: 2}

        state.pod_deleted("uid-x")
        assert reasons(state) == {PendingReason.FITS: 3}

    def test_of_very_many_sets_only_some_are_searched(self) -> None:
        state = state_of(a_node("node-a", 16))
        for number in range(MAX_SEARCHED_SETS + 3):
            state.pod_applied(a_pod(f"p-{number}", 1))
            state.refused_on.record(f"uid-p-{number}", frozenset({f"other-{number}"}))
        ask_for_all(state)
        assert reasons(state) == {PendingReason.ELSEWHERE: MAX_SEARCHED_SETS, PendingReason.UNKNOWN: 3}
