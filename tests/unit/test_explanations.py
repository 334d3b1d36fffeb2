"""Explanations: the verdict on each node, the numbers, what would help, and whether it could ever fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.cards import BOTH_MODES, SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.explain.explanation import MAX_REMEDIES_TRIED, Explainer, Explanation
from gcushare.core.explain.reason_text import summarise
from gcushare.core.explain.verdicts import POSSIBLE, Verdict, evaluate
from gcushare.core.fit_index import can_ever_fit
from gcushare.core.node_rules import Obstacle
from gcushare.core.nodes import NodeState
from gcushare.core.requests import CardRequest, CardSelection
from gcushare.wire.documents.explain import RequestDocument, RulesDocument, explain_waiting
from tests.builders import asks, asks_whole, card, cards, held, node_of, pod


def explain(
    request: CardRequest, *nodes: NodeState, priority: int = 0, by_claim: bool = False, **obstacles: str
) -> Explanation:
    """Explain a request on nodes, some of them excluded by rules of the pod; a cordon passes."""
    explainer = Explainer(request, priority=priority)
    found = {name: Obstacle(text, "cordon" in text) for name, text in obstacles.items()}
    for node in nodes:
        explainer.add(node, obstacle=found.get(node.name), by_claim=by_claim)
    return explainer.finish()


def named(name: str, *units: int, modes: Sequence[str] = (SERVES_MEMORY,), taken: int = 0) -> NodeState:
    """A node with cards of these sizes; a pod has so much of the first."""
    return node_of(cards(*units), *([(0, taken)] if taken else []), modes=modes, name=name)


def ended(found: Explanation) -> tuple[str, list[str]]:
    """The node, and the pods that would have to end there."""
    assert found.remedy is not None
    return found.remedy.node, [victim.name for victim in found.remedy.victims]


@pytest.mark.parametrize(
    ("node", "request_", "verdict"),
    [
        pytest.param(node_of(cards(16)), asks(16), Verdict.FITS, id="fits"),
        pytest.param(node_of(cards(16, 16), (0, 10), (1, 10)), asks(8), Verdict.FRAGMENTED, id="enough in two cards"),
        pytest.param(node_of(cards(16, 16), (0, 14), (1, 14)), asks(8), Verdict.FULL, id="not enough at all"),
        pytest.param(node_of(cards(16, 16)), asks(20), Verdict.TOO_SMALL, id="larger than every card"),
        pytest.param(node_of([card(0, 32, sick=True), card(1, 16)]), asks(20), Verdict.UNUSABLE, id="large one sick"),
        pytest.param(node_of([card(0, 32, cordoned=True)]), asks(20), Verdict.UNUSABLE, id="large one cordoned"),
        pytest.param(node_of([]), asks(4), Verdict.NO_CARDS, id="no cards"),
        pytest.param(node_of([card(0, 0)]), asks_whole(), Verdict.TOO_SMALL, id="a card without memory"),
        pytest.param(NodeState("new"), asks(4), Verdict.AWAITED, id="not known yet"),
        pytest.param(node_of(cards(16, 16), (0, 1)), asks_whole(2), Verdict.IN_USE, id="a whole card in use"),
        pytest.param(node_of(cards(16)), asks_whole(2), Verdict.TOO_FEW, id="too few cards"),
        pytest.param(node_of(cards(16), modes=[SERVES_MEMORY]), asks_whole(), Verdict.NO_WHOLE_CARDS, id="memory only"),
        pytest.param(node_of(cards(16), modes=[SERVES_WHOLE]), asks(4), Verdict.NO_MEMORY, id="whole cards only"),
        pytest.param(node_of(cards(16), modes=[]), asks(4), Verdict.DISTRUSTED, id="counted otherwise"),
    ],
)
def test_the_verdict_names_what_is_in_the_way(node: NodeState, request_: CardRequest, verdict: Verdict) -> None:
    assert evaluate(node, request_) is verdict
    assert can_ever_fit(node, request_) is (verdict in POSSIBLE)


@given(
    st.lists(st.tuples(st.integers(0, 16), st.booleans(), st.booleans()), max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 16)), max_size=4),
    st.one_of(st.integers(1, 20).map(asks), st.integers(1, 2).map(asks_whole)),
    st.sampled_from([BOTH_MODES, (SERVES_MEMORY,), (SERVES_WHOLE,), ()]),
)
def test_the_verdict_agrees_with_the_ledger(
    made: list[tuple[int, bool, bool]], holders: list[tuple[int, int]], request_: CardRequest, modes: tuple[str, ...]
) -> None:
    offered = [card(i, size, sick=sick, cordoned=cordoned) for i, (size, sick, cordoned) in enumerate(made)]
    node = node_of(offered, *holders, modes=modes)
    verdict = evaluate(node, request_)

    assert (verdict is Verdict.FITS) == node.fits(request_)
    assert (verdict in POSSIBLE) == can_ever_fit(node, request_)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (CardRequest(4, selection=CardSelection(use=("H200",))), "use-cards='H200'"),
        (CardRequest(4, selection=CardSelection(use=("0-1",))), "use-cards='0-1'"),
        (CardRequest(4, selection=CardSelection(use=("00", "x\ny" * 40))), "use-cards='00,x\\ny"),
        (CardRequest(4, selection=CardSelection(avoid=("0", "1"))), "avoid-cards='0,1'"),
        (CardRequest(4, cards=2, selection=CardSelection(use=("7", "8"))), "use-cards='7,8'"),
        (replace(asks_whole(2), selection=CardSelection(use=("7",))), "use-cards='7'"),
    ],
    ids=["an unknown model", "a range", "an odd index and a long name", "all avoided", "several cards", "whole cards"],
)
def test_a_pod_that_allows_no_card_there_is_explained_by_what_it_names(request_: CardRequest, said: str) -> None:
    text = summarise(explain(request_, node_of(cards(16, 16))))
    assert f"it can never fit: no usable card is one that the pod allows (gcushare.io/{said}" in text
    assert "where cards are named 0, 1" in text
    assert len(text) < 500


def test_a_node_that_settles_is_reported_as_such() -> None:
    node = node_of(cards(16, 16), (1, 12), (1, 12))
    found = explain(asks(4), node)
    assert (evaluate(node, asks(4)), evaluate(node, asks(20))) == (Verdict.UNCONFIRMED, Verdict.TOO_SMALL)
    assert "1 node: the cards of its pods are not confirmed yet" in summarise(found)
    assert "higher priority" not in summarise(found)


class TestPriority:
    @staticmethod
    def nodes(**priorities: int) -> list[NodeState]:
        """A node of one full card for each pod."""
        nodes = []
        for name, priority in priorities.items():
            nodes.append(node_of(cards(16), name=f"node-{name}"))
            nodes[-1].add(important(held(name, f"node-{name}", (0, 16)), priority))
        return nodes

    def test_pods_of_lower_priority_are_what_the_scheduler_may_end(self) -> None:
        found = explain(asks(12), *self.nodes(high=9, same=5, low=1), priority=5)

        assert (ended(found), found.remedy and found.remedy.is_preemption) == (("node-low", ["low"]), True)
        assert summarise(found).endswith("it would fit on node-low if these pods ended: default/low")
        explainer = Explainer(asks(12), priority=5, preempts=False)
        explainer.add(self.nodes(low=1)[0])
        found = explainer.finish()
        assert (ended(found), found.remedy and found.remedy.is_preemption) == (("node-low", ["low"]), False)
        assert "kube-scheduler does not end them by itself" in summarise(found)

    def test_pods_of_higher_priority_are_never_proposed(self) -> None:
        found = explain(asks(12), *self.nodes(high=9), priority=5)

        assert (found.remedy, found.can_ever_fit) == (None, True)
        assert summarise(found).endswith("only pods of higher priority are in the way")

    def test_an_important_pod_stays_where_an_unimportant_one_is_enough(self) -> None:
        node = node_of(cards(16, 16), (1, 5), name="node-2")
        node.add(important(held("important", "node-2", (0, 8)), 9))

        assert ended(explain(asks(12), *self.nodes(low=1), node, priority=5)) == ("node-2", ["node-2-0"])


def important(holder: Assignment, priority: int) -> Assignment:
    return replace(holder, pod=replace(holder.pod, priority=priority))


def test_of_many_nodes_some_are_weighed_and_that_is_reported() -> None:
    many = MAX_REMEDIES_TRIED + 8
    found = explain(asks(12), *(named(f"node-{number}", 16, taken=10) for number in range(many)))

    assert (found.weighed, found.after_preemption) == (MAX_REMEDIES_TRIED, many)
    assert summarise(found).endswith(f"pods to end were sought on {MAX_REMEDIES_TRIED} of {many} such nodes")


CLAIMS = (SERVES_CLAIMS,)


def test_a_request_is_judged_on_the_nodes_that_the_rules_leave_and_then_on_all() -> None:
    found = explain(asks(18), named("n1", 16, 16, taken=16), named("n2", 8, 24), n2="nodeSelector pool=a")

    assert (found.nodes_fit, found.can_ever_fit, found.largest_now, found.largest_ever) == (0, False, 16, 16)
    assert summarise(found) == (
        "needs 18 GiB in one card; it may run on 1 of 2 nodes (kept off 1 by nodeSelector pool=a); 1 of the others "
        "(n2) has room; best card free: 16 GiB (card 1 of n1); total free 16 of 32 GiB; 1 node: no card that is large "
        "enough; it can never fit: the largest usable card has 16 GiB"
    )
    asked = RequestDocument(18, 1, whole=False, node_policy="", card_policy="")
    document = explain_waiting(PodRef("uid", "default", "a"), asked, found, divisor=1)
    assert document.rules == RulesDocument(left=1, known=2, fit_elsewhere=1, examples=("n2",))
    assert document.ways_out == (
        "ask for at most 16",
        "let it run on n2, off which it is kept by nodeSelector pool=a",
        "add a node on which it may run with a card of 18 GiB or more",
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(
            explain(CardRequest(4, 4, selection=CardSelection(use=("0", "1", "2"))), named("n1", *[16] * 4)),
            "it can never fit: no node has 4 usable cards; the most is 3, of those that the pod allows",
            id="three are allowed and four needed",
        ),
        pytest.param(
            explain(asks_whole(3), named("n1", 16, 16, modes=BOTH_MODES)),
            "it can never fit: no node that serves whole cards has 3 usable cards; the most is 2",
            id="no node has three whole cards",
        ),
        pytest.param(
            explain(asks(4), named("n1", 16, 16, modes=CLAIMS)),
            "needs 4 GiB in one card; 1 node: its cards are given as claims",
            id="nothing is said of the room of cards that claims give",
        ),
        pytest.param(
            explain(asks(4), named("n1", 16), named("n2", 16), n1="nodeSelector a=b", n2="taint gpu:NoSchedule"),
            "it may run on none of 2 nodes (kept off 1 by nodeSelector a=b, 1 by taint gpu:NoSchedule); 2 of them (n1, "
            "n2) have room; it can never fit: no node is left",
            id="no node is left",
        ),
        pytest.param(
            explain(asks(4), named("n1", 16), named("n2", 2), n1="a cordon"),
            "1 node: no card that is large enough; it has to wait until a node takes pods again, such as n1",
            id="a cordon passes",
        ),
        pytest.param(explain(asks(4)), "it can never fit: no node has cards", id="there is no node"),
        pytest.param(
            explain(asks(4), NodeState("new")),
            "needs 4 in one card; 1 node: its cards are not known yet, or cannot be read; it may fit once the cards of "
            "new are known",
            id="no figure of a node whose cards are not known yet",
        ),
        pytest.param(
            explain(asks(12), named("n1", 16, modes=BOTH_MODES, taken=8), by_claim=True),
            "would fit on n1 if these pods ended: default/n1-0 (kube-scheduler ends no pod for a claim)",
            id="no preemption for a claim",
        ),
    ],
)
def test_the_text_says_what_is_true_of_the_nodes_that_were_judged(found: Explanation, said: str) -> None:
    assert said in summarise(found)


def test_a_pod_can_be_called_hopeless_only_where_all_cards_are_known() -> None:
    """What would help is left open as well."""
    asked = RequestDocument(18, 1, whole=False, node_policy="", card_policy="")
    for nodes, can_fit, helps in (
        ((named("n1", 16),), False, True),
        ((named("n1", 16), NodeState("new")), None, False),
        ((named("n1", 32, taken=20), NodeState("new")), True, False),
    ):
        document = explain_waiting(PodRef("uid", "default", "a"), asked, explain(asks(18), *nodes), divisor=1)
        assert (document.can_ever_fit, bool(document.ways_out)) == (can_fit, helps)


def test_a_node_of_another_plugin_has_no_cards_to_wait_for() -> None:
    explainer = Explainer(replace(asks_whole(), selection=CardSelection(use=("0",))))
    explainer.add(NodeState("theirs"), is_elsewhere=True)
    assert explainer.finish().awaited == ()


def test_a_node_that_was_not_asked_about_counts_where_its_memory_is_too_little_in_sum() -> None:
    explainer = Explainer(asks(12))
    explainer.add(named("asked", 8))
    explainer.add(named("full", 16, taken=8), is_asked=False)
    explainer.add(named("elsewhere", 16), is_asked=False)
    found = explainer.finish()

    examples = {each.verdict: each.examples for each in found.classes}
    assert examples == {Verdict.FULL: ["full"], Verdict.TOO_SMALL: ["asked"], Verdict.UNASKED: ["elsewhere"]}
    assert (found.asked, found.can_ever_fit, ended(found)) == (1, True, ("full", ["full-0"]))


def test_a_claim_is_free_only_once_every_pod_that_shares_it_has_ended() -> None:
    node = named("n1", 16)
    node.add(replace(held("first", "n1", (0, 8)), sharers=(pod("second"),)))
    assert ended(explain(asks(12), node, by_claim=True)) == ("n1", ["first", "second"])
