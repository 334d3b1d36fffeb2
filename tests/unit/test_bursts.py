"""Pods with a limit above their request: where they fit, when they are over, who is evicted first, what is shown."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.cli.inspect.details import detail_page
from gcushare.cli.kubectl.summary import summarise
from gcushare.cli.top.rows import pod_use_rows, use_rows
from gcushare.cli.top.top import pod_use_lines
from gcushare.cluster.extender import adopt_document
from gcushare.cluster.node_view import view_status
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.assignments import PodRef
from gcushare.core.explain.explanation import Explainer
from gcushare.core.explain.reason_text import summarise as summarise_explanation
from gcushare.core.explain.verdicts import Verdict
from gcushare.core.over_use.eviction import BURST_MARGIN_BYTES, CardReading, When, decide
from gcushare.core.over_use.tracking import OverUseChangeKind, OverUseTracker, PolledUse
from gcushare.core.placement import POLICIES, choose_cards
from gcushare.core.requests import CardRequest, CardSelection
from gcushare.core.units import GIB
from gcushare.scheduler_extender.dashboard.feed_documents import NodeContext, NodeMetadata, node_document
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import CARDS, MEMORY_LIMIT
from gcushare.wire.documents.explain import RequestDocument, explain_bound, explain_waiting
from gcushare.wire.documents.explain_text import describe_ways_out
from gcushare.wire.documents.inspect import decode_document, encode_node
from gcushare.wire.documents.plugin_status import PodOverUse
from gcushare.wire.pod_options import memory_limit
from gcushare.wire.pods import pod_assignment, pod_request
from tests.builders import TOLERANCE, cards, node_of, offender, present, read_card
from tests.extender_objects import a_node, a_pod, on_card
from tests.unit.card_views import card, pod, status, use

PLACE = ("uid", 0)


def limited(units: int = 4, limit: int = 12) -> CardRequest:
    return CardRequest(units, selection=CardSelection(limit=limit))


# Placement


def test_the_pod_is_placed_by_its_request_on_a_card_as_large_as_its_limit() -> None:
    request = present(pod_request(a_pod("a", 4, annotations={MEMORY_LIMIT: "12"}), ENFLAME))
    assert (request.cards.units, request.cards.limit, request.total_units) == (4, 12, 4)
    chosen = present(choose_cards(node_of(cards(8, 16)), request.cards, POLICIES["binpack"].rank_card))
    assert [state.index for state in chosen] == [1]
    assert not node_of(cards(8, 8)).fits(request.cards)


def test_several_cards_share_the_limit_as_they_share_the_request() -> None:
    pod = a_pod("a", 8, vendor=ALIYUN, annotations={MEMORY_LIMIT: "24", CARDS: "2"})
    request = present(pod_request(pod, ALIYUN))
    assert (request.cards.units, request.cards.limit) == (4, 12)


@pytest.mark.parametrize(
    ("text", "limit"), [("12", 12), ("4", 0), ("3", 0), ("x", 0), ("", 0), ("0", 0), ("99999999", 0)]
)
def test_of_a_bound_pod_a_limit_that_filter_would_refuse_counts_as_none(text: str, limit: int) -> None:
    assert memory_limit({MEMORY_LIMIT: text}, CardRequest(4)) == limit
    pod = a_pod("a", 4, node="n1", record=on_card(0, 4), annotations={MEMORY_LIMIT: text})
    assignment = present(pod_assignment(pod, ENFLAME))
    assert (assignment.units, assignment.limit) == (4, limit)


def test_a_limit_above_every_card_is_explained_with_what_would_help() -> None:
    explainer = Explainer(limited(limit=20))
    explainer.add(node_of(cards(16, 16)))
    found = explainer.finish()
    (only,) = found.classes
    assert only.verdict is Verdict.BELOW_LIMIT
    text = summarise_explanation(found)
    assert "needs 4 GiB in one card, of at least 20 GiB (its limit)" in text
    assert "it can never fit: no usable card that the pod allows has the 20 GiB of its limit" in text
    asked = RequestDocument(4, 1, whole=False, node_policy="binpack", card_policy="binpack", limit=20)
    document = explain_waiting(PodRef("uid", "default", "a"), asked, found, divisor=4)
    assert describe_ways_out(document) == (
        'what would help: annotate the pod with gcushare.io/cards: "2": 2 GiB in each of 2 cards of one node, or lower '
        "gcushare.io/memory-limit to at most 16, or add a node with a card of 20 GiB or more"
    )


# When a burst is an over-use


def test_a_burst_within_the_limit_is_no_over_use_until_a_grant_of_the_card_is_in_danger() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=2)
    burst = {PLACE: PolledUse(10 * GIB, 4 * GIB, limit=12 * GIB)}
    for _ in range(4):
        assert tracker.take(burst, {"uid"}, 1.0) == []
    tracker.take(burst, {"uid"}, 2.0, tight={0})
    (change,) = tracker.take(burst, {"uid"}, 3.0, tight={0})
    assert change.kind is OverUseChangeKind.BEGAN
    tracker.take(burst, {"uid"}, 4.0, tight={1})
    (change,) = tracker.take(burst, {"uid"}, 5.0, tight={1})
    assert change.kind is OverUseChangeKind.ENDED


def test_use_above_the_limit_is_an_over_use_on_any_card() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=1)
    (change,) = tracker.take({PLACE: PolledUse(13 * GIB, 4 * GIB, limit=12 * GIB)}, {"uid"}, 1.0)
    assert change.kind is OverUseChangeKind.BEGAN


@pytest.mark.parametrize(
    ("burst", "neighbour", "is_tight"),
    [
        pytest.param(7.0, (2, 8), False, id="7 of 16 are free, 6 may still be needed"),
        pytest.param(7.75, (2, 8), True, id="the margin is missing"),
        pytest.param(9.0, (2, 8), True, id="less than what may be needed"),
        pytest.param(8.0, (8, 8), False, id="the neighbour has all that it was granted"),
    ],
)
def test_a_grant_is_in_danger_if_free_memory_does_not_cover_it_with_a_margin(
    burst: float, neighbour: tuple[float, int], is_tight: bool
) -> None:
    assert BURST_MARGIN_BYTES == GIB // 2
    assert read_card(offender("b", burst, limit=12), neighbour=neighbour).is_tight == is_tight


def test_an_unknown_use_of_the_card_is_no_danger() -> None:
    assert not CardReading(0, 16 * GIB, None, 0, {"n": PolledUse(0, 8 * GIB)}).is_tight


# Who is evicted


def test_a_bursting_pod_goes_before_all_others_and_of_these_the_lowest_priority_with_the_most() -> None:
    pods = (
        offender("worst", 9),
        offender("high", 6, limit=12, priority=1000),
        offender("small", 5, limit=12),
        offender("large", 7, limit=12),
    )
    left = list(pods)
    order = []
    while left:
        card = CardReading(0, 16 * GIB, 16 * GIB, 0, {"n": PolledUse(0, 8 * GIB)})
        victim = present(decide(left, {0: card}, When.DANGER).victim)
        order.append(victim.pod.name)
        left.remove(victim)
    assert order == ["large", "small", "high", "worst"]


def test_a_bursting_pod_is_evicted_for_the_margin_and_another_only_for_a_real_shortage() -> None:
    burst, other = offender("burst", 7.75, limit=12), offender("other", 7.75)
    found = decide([burst], {0: read_card(burst)}, When.DANGER)
    assert found.victim == burst
    assert "7.75 GiB of card 0 and was granted 4.00 GiB (limit 12.00 GiB" in found.reason
    assert "6.25 GiB free, and other pods may still need 6.00 GiB" in found.reason
    assert decide([other], {0: read_card(other)}, When.DANGER).victim is None


@pytest.mark.parametrize(("used", "is_evicted"), [(7, False), (13, True)])
def test_where_every_over_use_is_evicted_a_burst_within_its_limit_is_not(used: int, is_evicted: bool) -> None:
    burst = offender("burst", used, limit=12)
    found = decide([burst], {0: read_card(burst, neighbour=(0, 0))}, When.ALWAYS)
    assert (found.victim is not None) == is_evicted


# What is shown


def snapshot() -> ClusterSnapshot:
    found = ClusterSnapshot(ENFLAME)
    pods = (
        a_pod("burst", 4, node="n1", record=on_card(0, 4), phase="Running", annotations={MEMORY_LIMIT: "12"}),
        a_pod("plain", 4, node="n1", record=on_card(0, 4), phase="Running"),
    )
    found.count([a_node("n1", 16)], pods)
    return found


def test_inspect_shows_request_and_limit_and_its_document_carries_them() -> None:
    known = snapshot()
    details = "\n".join(line.plain for line in detail_page(summarise(known), None))
    assert "4 (max 12)" in details
    assert details.count("max") == 1
    body = b'{"nodes":[' + encode_node(ENFLAME, known.ledger.nodes["n1"]) + b"]}"
    again = ClusterSnapshot(ENFLAME)
    again.count([a_node("n1", 16)], ())
    adopt_document(again, decode_document(body))
    limits = {held.pod.name: held.limit for held in again.ledger.assignments()}
    assert limits == {"burst": 12, "plain": 0}
    assert b'"limit"' not in encode_node(ENFLAME, node_of(cards(16)))


def test_explain_and_the_page_say_the_limit() -> None:
    (held,) = (each for each in snapshot().ledger.assignments() if each.limit)
    document = explain_bound(held, 4)
    assert document.limit == 12
    assert document.summary == "bound to n1: card 0, 4 units (limit 12, while no other pod needs them)"
    context = NodeContext(NodeMetadata(), "", {}, {}, frozenset())
    node = node_document(ENFLAME, snapshot().ledger.nodes["n1"], context)
    assert {pod.name: pod.limit for pod in node.pods} == {"burst": 12, "plain": 0}
    assert b'"limit":12' in msgspec.json.encode(node)


def test_top_shows_the_limit_and_calls_a_burst_within_it_no_over_use() -> None:
    limits, uses = {"above": "8", "burst": "12", "noted": "8"}, {"above": 9, "burst": 10, "noted": 6}
    known = ClusterSnapshot(ENFLAME)
    bound = {"node": "n1", "record": on_card(0, 4)}
    known.count(
        [a_node("n1", 16)], [a_pod(name, annotations={MEMORY_LIMIT: each}, **bound) for name, each in limits.items()]
    )
    over = PodOverUse(used_bytes=6 * GIB, granted_bytes=4 * GIB, peak_bytes=6 * GIB, since="2026-11-22T02:53:08Z")
    noted = {"noted": {0: over}}
    pods = tuple(
        pod(f"default/{name}", {0: 4}, uid=f"uid-{name}", used_by_card={0: gib * GIB}, over_use=noted.get(name, {}))
        for name, gib in uses.items()
    )
    views = {"n1": view_status(status(card(0, use=use(15)), pods=pods, node="n1"), "plugin.example", {})}
    summary = summarise(known)
    rows = pod_use_rows(summary, views)
    assert [(row.pod, row.limit_bytes // GIB, row.is_over) for row in rows] == [
        ("default/above", 8, True),
        ("default/burst", 12, False),
        ("default/noted", 8, True),
    ]
    lines = [line.plain.split() for line in pod_use_lines(summary, rows, None)]
    assert ["n1", "0", "default/burst", "4.0", "12.0", "10.0", "processes", "-"] in lines
    (row,) = use_rows(summary, views)
    assert not row.is_over, "12 granted, 16 more may be used"
