"""filter and prioritize on bytes: the fast path answers what the rules answer, and says so in metrics and logs."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.fit_index import can_ever_fit
from gcushare.core.placement import POLICIES
from gcushare.scheduler_extender.extender_settings import NamedNodes
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.filter import FilterService
from gcushare.scheduler_extender.verbs.preempt import MAX_VICTIMS, MAX_VICTIMS_OF_NODE
from gcushare.scheduler_extender.verbs.request_metrics import VerbAnswer
from gcushare.vendors import ALIYUN
from gcushare.wire.annotations import CARD_POLICY, CARDS, MEMORY_LIMIT, NODE_POLICY, USE_CARDS
from gcushare.wire.extender_api import SPARE_NODES
from tests.builders import GIB_UNIT, asks, card, node_score
from tests.extender_objects import (
    DEFAULT_POLICIES,
    Document,
    a_node,
    a_pod,
    filter_body,
    node_document,
    on_card,
    pod_document,
    preempt_body,
    state_of,
)
from tests.unit.extender_desk import Desk

REASON = "insufficient GCU Memory in one gcu device"
NODES = [f"node-{number}" for number in range(40)]


BEST_20 = NamedNodes(20)
NAMED = [NamedNodes(None), *(NamedNodes(most, only_equal) for most in (1, 3, 20) for only_equal in (False, True))]


class Service:
    """What answers for one vendor, its refusals noted."""

    def __init__(self, state: VendorState, named: NamedNodes = BEST_20) -> None:
        self.refused: list[SchedulingRequest] = []
        self.filters = FilterService(state, named=named, refusals=self.refused.append)
        self.desk = Desk((state, self.filters))

    def filter(self, pod: Document, names: list[str]) -> Any:
        return json.loads(self.desk.filter(filter_body(pod, names)).body)

    def prioritize(self, pod: Document, names: list[str]) -> dict[str, int]:
        answer = json.loads(self.desk.prioritize(filter_body(pod, names)).body)
        return {entry["Host"]: entry["Score"] for entry in answer}


def by_the_rules(state: VendorState, units: int, names: list[str], named: NamedNodes, policy: str) -> Document:
    """What filter has to answer, written down plainly."""
    distinct = list(dict.fromkeys(names))
    request = asks(units)
    nodes = state.ledger.nodes
    fitting = [name for name in distinct if name in nodes and nodes[name].known and nodes[name].fits(request)]
    if named.most is not None:
        score = {name: POLICIES[policy].score_node(nodes[name], request) for name in fitting}
        if named.only_equal:
            fitting = [name for name in fitting if score[name] == max(score.values())]
        fitting = sorted(fitting, key=lambda name: (-score[name], name))[: named.most]
    failed, unresolvable = {}, {}
    if named.most is None or not fitting:
        failed = {name: REASON for name in distinct if name not in fitting}
    if not fitting:
        unresolvable = {
            name: REASON for name in distinct if name not in nodes or not can_ever_fit(nodes[name], request)
        }
    return {
        "Nodes": None,
        "NodeNames": fitting,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": unresolvable,
        "Error": "",
    }


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Nodes and pods that change, and questions in between: about all nodes, some, in any order, doubled or unknown."""
    steps: list[tuple[str, Any]] = []
    for number in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from(["node", "pod", "gone", "ask", "ask", "ask"]))
        node = draw(st.sampled_from(NODES[:6]))
        if kind == "node":
            steps.append(("node", (node, draw(st.lists(st.integers(1, 16), min_size=1, max_size=3)))))
        elif kind == "pod":
            steps.append(("pod", (f"p{number}", node, draw(st.integers(0, 2)), draw(st.integers(1, 12)))))
        elif kind == "gone":
            steps.append(("gone", draw(st.sampled_from([*NODES[:6], *(f"p{n}" for n in range(8))]))))
        else:
            some = st.lists(st.sampled_from([*NODES[:8], "unknown-node", "nor-this-one"]), max_size=12)
            names = draw(st.one_of(st.just(NODES), st.just(NODES[::-1]), some))
            steps.append(("ask", (draw(st.sampled_from((1, 6, 12, 17))), names)))  # So that an order is asked again.
    return steps


@pytest.mark.slow
@given(conversations(), st.sampled_from(NAMED), st.sampled_from(["binpack", "spread"]))
def test_every_answer_of_a_conversation_is_what_the_rules_say(
    steps: list[tuple[str, Any]], named: NamedNodes, policy: str
) -> None:
    state = state_of(policies=replace(DEFAULT_POLICIES, node=policy))
    service = Service(state, named)
    for number, (kind, what) in enumerate([("node", (name, [16, 8])) for name in NODES[:4]] + steps):
        match kind:
            case "node":
                state.node_applied(a_node(what[0], *what[1]))
            case "pod":
                name, node, index, units = what
                state.pod_applied(a_pod(name, units, node=node, record=on_card(index, units)))
            case "gone":
                state.node_deleted(what)
                state.pod_deleted(f"uid-{what}")
            case _:
                units, names = what
                asking = pod_document(f"ask-{number}", units)
                answer = service.filter(asking, names)
                assert answer == by_the_rules(state, units, names, named, policy)
                nodes, request = state.ledger.nodes, asks(units)
                assert service.prioritize(asking, names) == {
                    name: node_score(nodes[name], request, policy) if name in nodes and nodes[name].known else 0
                    for name in names
                }


@pytest.mark.parametrize(
    ("units", "annotations", "words"),
    [
        pytest.param("1.5", {}, "'1.5' is not a whole number", id="fractional"),
        pytest.param(4, {NODE_POLICY: "best"}, "gcushare.io/node-policy='best'", id="node policy"),
        pytest.param(4, {CARD_POLICY: "best"}, "gcushare.io/card-policy='best'", id="card policy"),
        pytest.param(4, {USE_CARDS: "0,,1"}, "gcushare.io/use-cards='0,,1'", id="card words"),
        pytest.param(4, {CARDS: "0"}, "gcushare.io/cards='0'", id="no cards"),
        pytest.param(5, {CARDS: "2"}, "cannot share equally", id="does not divide"),
        pytest.param(4, {MEMORY_LIMIT: "3"}, "memory-limit=3 is below the 4 units", id="a limit below the request"),
        pytest.param(4, {MEMORY_LIMIT: "all"}, "gcushare.io/memory-limit='all'", id="a limit that is no number"),
        pytest.param(4, {MEMORY_LIMIT: "7", CARDS: "2"}, "cannot share that equally", id="a limit for two cards"),
    ],
)
def test_what_is_wrong_with_a_pod_becomes_the_protocols_error(
    units: object, annotations: dict[str, str], words: str
) -> None:
    service = Service(state_of(a_node("node-1", 16)))
    pod = pod_document("a", units, annotations=annotations)

    error = service.filter(pod, ["node-1"])["Error"]

    assert words in error
    assert "pod default/a" in error
    with pytest.raises((RemoteContractError, Refused)):
        service.prioritize(pod, ["node-1"])


@pytest.mark.parametrize("nodes", [0, 3])
def test_more_names_than_the_cluster_can_have_are_refused(nodes: int) -> None:
    service = Service(state_of(*(a_node(name, 16) for name in NODES[:nodes])))
    most = 2 * nodes + SPARE_NODES

    assert f"at most {most}" in service.filter(pod_document("a"), ["n"] * (most + 1))["Error"]
    assert f"at most {most}" in service.filter(pod_document("a"), ["n" * 256 * (most + 1)])["Error"]
    assert service.filter(pod_document("a"), [f"n{number}" for number in range(most)])["Error"] == ""


def test_a_pod_may_choose_its_own_node_policy() -> None:
    state = state_of(a_node("empty", 16), a_node("used", 16))
    state.pod_applied(a_pod("x", 8, node="used", record=on_card(0, 8)))
    service = Service(state, NamedNodes(1))

    assert service.filter(pod_document("a"), ["empty", "used"])["NodeNames"] == ["used"]
    spread = pod_document("b", annotations={NODE_POLICY: "spread"})
    assert service.filter(spread, ["empty", "used"])["NodeNames"] == ["empty"]


@pytest.mark.parametrize("most", [None, 1])
def test_a_scheduler_that_sends_whole_nodes_gets_the_fitting_ones_back_as_they_were(most: int | None) -> None:
    service = Service(state_of(a_node("node-1", 16), a_node("node-2", 8)), NamedNodes(most))
    sent = [node_document("node-1", 16), node_document("node-2", 8)]

    def ask(units: int) -> Document:
        body = json.dumps({"Pod": pod_document("a", units), "Nodes": {"items": sent}, "NodeNames": None}).encode()
        answer: Document = json.loads(service.desk.filter(body).body)
        return answer

    assert ask(12)["Nodes"]["items"] == sent[:1]
    assert ask(12)["FailedNodes"] == ({"node-2": REASON} if most is None else {})
    assert ask(20)["Nodes"]["items"] == []
    assert ask(20)["FailedNodes"] == {"node-1": REASON, "node-2": REASON}


@pytest.mark.parametrize("nodes", [None, {"items": []}, {"items": None}], ids=["none", "an empty list", "null"])
def test_a_request_about_no_node_is_answered_with_none_and_refused_to_no_one(nodes: object) -> None:
    service = Service(state_of(a_node("node-1", 16)))
    body = json.dumps({"Pod": pod_document("a", 4), "Nodes": nodes, "NodeNames": None}).encode()
    found = service.desk.filter(body)
    answer = json.loads(found.body)

    assert (found.result, service.refused) == ("empty", [])
    assert (answer["Nodes"]["items"], answer["FailedNodes"], answer["Error"]) == ([], {}, "")


def test_a_pod_that_asks_for_cards_of_both_is_refused() -> None:
    desk = Desk((state_of(), None), (state_of(vendor=ALIYUN), None))
    pod = pod_document("a", 4)
    pod["spec"]["containers"].append(pod_document("b", 4, vendor=ALIYUN)["spec"]["containers"][0])

    error = json.loads(desk.filter(filter_body(pod, ["node-1"])).body)["Error"]
    assert "enflame.com/gcu-memory and for aliyun.com/gpu-mem" in error


@pytest.mark.parametrize("policy", ["binpack", "expected-fill", "spread"])
@pytest.mark.parametrize("use", ["H200,A100", "strongest"])
def test_filter_names_and_prioritize_scores_the_nodes_with_the_cards_that_the_author_prefers(
    policy: str, use: str
) -> None:
    state = state_of(policies=replace(DEFAULT_POLICIES, node=policy))
    for name, model, gib in (("n-a100", "A100", 80), ("n-h200", "H200", 141), ("n-full", "H200", 141)):
        state.ledger.set_node(name, [card(0, gib, model=model)], GIB_UNIT)
    state.pod_applied(a_pod("holder", 140, node="n-full", record=on_card(0, 140)))
    service = Service(state, NamedNodes(20, only_equal=True))
    names = ["n-a100", "n-full", "n-h200"]
    asking = pod_document("asks", 40, annotations={USE_CARDS: use})
    assert service.filter(asking, names)["NodeNames"] == ["n-h200"]
    scores = service.prioritize(asking, names)
    assert scores["n-h200"] > scores["n-a100"] >= scores["n-full"] == 0


def facts(answer: VerbAnswer) -> tuple[str, str, str]:
    return answer.result, answer.vendor, answer.reason


@pytest.mark.parametrize(
    ("document", "nodes", "filtered", "prioritized", "scores"),
    [
        pytest.param(pod_document("p", 4), ["n"], ("fits", ""), "scored", [2], id="fits"),
        pytest.param(pod_document("p", 17), ["n"], ("refused", "no_room"), "scored", [0], id="refused"),
        pytest.param(pod_document("p", 4), [], ("empty", ""), "scored", [], id="no nodes"),
        pytest.param(pod_document("p", None), ["n"], ("not_asking", ""), "not_asking", [0], id="not asking"),
    ],
)
def test_an_answer_says_what_became_of_the_call(
    document: Document, nodes: list[str], filtered: tuple[str, str], prioritized: str, scores: list[int]
) -> None:
    desk = Desk((state_of(a_node("n", 16)), None))
    result, vendor, reason = facts(desk.filter(filter_body(document, nodes)))
    assert (result, vendor) == (filtered[0], "enflame")
    assert reason == filtered[1]
    answer = desk.prioritize(filter_body(document, nodes))
    assert (answer.result, answer.vendor) == (prioritized, "enflame")
    assert [each["Score"] for each in json.loads(answer.body)] == scores


@pytest.mark.parametrize(("units", "reason"), [("1.5", "malformed"), (1 << 40, "declined")])
async def test_a_pod_that_cannot_get_a_card_is_an_error_with_its_reason(
    units: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gcushare")
    document = pod_document("p", units)
    answer = Desk((state_of(a_node("n", 16)), None)).filter(filter_body(document, ["n"]))
    assert facts(answer) == ("error", "enflame", reason)
    assert [each.startswith('filter refused reason="pod default/p: ') for each in caplog.messages] == [True]


class TestPreempt:
    @staticmethod
    def state() -> VendorState:
        state = state_of(a_node("n1", 16), a_node("n2", 16))
        for name, node in (("a", "n1"), ("b", "n2")):
            state.pod_applied(a_pod(name, 16, node=node, record=on_card(0, 16)))
        return state

    @pytest.mark.parametrize(
        ("units", "victim", "result"), [(8, "a", "fits"), (17, "x", "refused"), (None, "a", "not_asking")]
    )
    async def test_the_result_says_whether_a_node_is_left(self, units: int | None, victim: str, result: str) -> None:
        body = preempt_body(pod_document("p", units, priority=1), {"n1": [victim]})
        assert facts(await Desk((self.state(), None)).preempt(body)) == (result, "enflame", "")

    @pytest.mark.slow
    async def test_the_shortest_proposals_are_weighed_first_and_those_left_out_are_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "gcushare")
        many = [f"x{number}" for number in range(MAX_VICTIMS_OF_NODE)]
        long = {f"a{number}": many for number in range(-(-MAX_VICTIMS // MAX_VICTIMS_OF_NODE))}
        body = preempt_body(pod_document("p", 8, priority=1), long | {"n2": ["b"]})
        answer = await Desk((self.state(), None)).preempt(body)
        assert list(json.loads(answer.body)["NodeNameToMetaVictims"]) == ["n2"]
        (line,) = [each for each in caplog.messages if each.startswith("preempt left nodes out pod=default/p reason=")]
        assert f"1 of {len(long) + 1} proposed nodes were left out" in line
