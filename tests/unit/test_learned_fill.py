"""What a running cluster teaches, and that the extender's order is the simulator's."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from benchmarks.packing.cluster import SimulatedCluster, request_of
from benchmarks.packing.extender_policies import LeastLoss
from benchmarks.packing.runs import Placer
from benchmarks.packing.workload import EmptyNode

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.change_log import ChangeLog
from gcushare.core.fit_index import FitIndexes, Shape
from gcushare.core.ledger import Ledger
from gcushare.core.other_resources import NO_AMOUNTS, Amounts
from gcushare.core.packing.expected_fill import Demand
from gcushare.core.packing.learned_fill import LearnedFill, demand_held
from gcushare.core.placement import EXPECTED_FILL, POLICIES, choose_cards
from gcushare.core.requests import CardRequest
from tests.builders import GIB_UNIT, cards, held

SPECS = [
    *(EmptyNode(f"a-{number}", 16000, 65536, 2) for number in range(5)),
    *(EmptyNode(f"b-{number}", 64000, 262144, 8) for number in range(3)),
]
TRACE = [
    *[Demand(1, 810, False, 3152, 5600)] * 8,
    *[Demand(1, 470, False, 11908, 47104)] * 6,
    *[Demand(1, 160, False, 4541, 8000)] * 2,
    *[Demand(1, 0, True, 8000, 30517)] * 14,
    *[Demand(2, 300, False, 2000, 1000)] * 2,
    *[Demand(4, 0, True, 20000, 60000)] * 2,
]


def nothing_is_known(_name: str) -> Amounts:
    return NO_AMOUNTS


@pytest.mark.parametrize("seed", range(4))
def test_the_extender_takes_the_node_and_the_cards_that_the_simulator_takes(seed: int) -> None:
    draw = random.Random(seed)
    cluster = SimulatedCluster(SPECS)
    placer = Placer(cluster, LeastLoss(Counter(TRACE)))
    fill = LearnedFill(lambda name: _left(cluster, name))
    fill.learn(Counter(TRACE), 1000)
    changes = ChangeLog(cluster.ledger)
    indexes = FitIndexes(
        cluster.ledger.nodes,
        changes,
        slow={EXPECTED_FILL: lambda node, shape: fill.score(node, shape.request, shape.amounts)},
    )
    for number, demand in enumerate(draw.choices(TRACE, k=45)):
        request, amounts = request_of(demand), Amounts(demand.cpu_milli, demand.memory_mib)
        index = indexes.get(Shape(request, EXPECTED_FILL, amounts))
        while indexes.score_due(100):
            pass
        names = {node.spec.name: None for node in cluster.nodes if node.room.fits(demand)}
        best = index.best(names, 1)
        nodes = cluster.ledger.nodes
        before = {name: nodes[name].copy() for name in best}
        cards = [choose_cards(nodes[name], request, fill.rank_cards(nodes[name], request, amounts)) for name in best]
        expected = {(card.grantable, card.is_empty) for chosen in cards for card in chosen or ()}

        taken = placer.place(str(number), demand)

        assert [cluster.nodes[taken].spec.name] == best if taken is not None else not best
        if taken is not None:
            held = cluster.ledger.assignment(str(number))
            assert held is not None
            used = [before[held.node].cards[grant.index] for grant in held.grants]
            assert {(card.grantable, card.is_empty) for card in used} == expected
        if number % 3 == 2:
            cluster.end(draw.choice(sorted(cluster.pods)))
            for name in cluster.ledger.nodes:  # The simulator does not tell this log which node it was.
                changes.record(name)


def _left(cluster: SimulatedCluster, name: str) -> Amounts:
    node = cluster.nodes[cluster.index_of[name]]
    return Amounts(node.cpu_milli, node.memory_mib)


def test_before_anything_is_learned_nodes_and_cards_are_those_of_binpack() -> None:
    cluster = SimulatedCluster(SPECS)
    cluster.place("p", 3, Demand(1, 500), None)
    fill, binpack, request = LearnedFill(nothing_is_known), POLICIES["binpack"], CardRequest(100)
    for node in cluster.ledger.nodes.values():
        assert fill.score(node, request, NO_AMOUNTS) == binpack.score_node(node, request)
        assert choose_cards(node, request, fill.rank_cards(node, request, NO_AMOUNTS)) == choose_cards(
            node, request, binpack.rank_card
        )


def test_a_share_goes_next_to_what_leaves_the_typical_pods_their_room() -> None:
    """Of two cards with room the tighter one is left alone: half a card is asked for often, and fits exactly there."""
    cluster = SimulatedCluster([EmptyNode("n", 1000, 1000, 2)])
    cluster.place("a", 0, Demand(1, 500), None)
    cluster.place("b", 0, Demand(0, 0), None)
    node = cluster.ledger.nodes["n"]
    fill = LearnedFill(lambda _name: Amounts(1000, 1000))
    fill.learn({Demand(1, 500): 9, Demand(1, 100): 1}, 1000)

    cards = choose_cards(node, CardRequest(500), fill.rank_cards(node, CardRequest(500), NO_AMOUNTS))

    assert cards is not None
    assert [card.index for card in cards] == [0]


def test_a_node_without_the_cpu_that_is_asked_for_comes_last() -> None:
    cluster = SimulatedCluster(SPECS)
    fill = LearnedFill(lambda name: _left(cluster, name))
    fill.learn(Counter(TRACE), 1000)
    node = cluster.ledger.nodes["a-0"]
    assert fill.score(node, CardRequest(100), Amounts(16000, 0)) > 0
    assert fill.score(node, CardRequest(100), Amounts(16001, 0)) == 0


def test_a_few_other_pods_are_no_reason_to_learn_again_and_many_are() -> None:
    fill = LearnedFill(nothing_is_known)
    some, other = Demand(1, 500), Demand(1, 100)
    assert not fill.learn({}, 1000)
    assert fill.learn({some: 100}, 1000)
    assert not fill.learn({some: 1000}, 1000)
    assert not fill.learn({some: 96, other: 4}, 1000)
    assert fill.learn({some: 90, other: 10}, 1000)
    assert fill.typical == {some: 90, other: 10}


def test_a_pod_that_holds_cards_is_counted_as_what_it_asked_for() -> None:
    pod, amounts = PodRef("u", "default", "p"), Amounts(1, 2)

    def demand(*grants: CardGrant, unplaced: int = 0) -> Demand | None:
        return demand_held(Assignment(pod, "n", grants, unplaced=unplaced), amounts)

    assert demand(CardGrant(0, 4)) == Demand(1, 4, False, 1, 2)
    assert demand(CardGrant(0, 4), CardGrant(1, 4)) == Demand(2, 4, False, 1, 2)
    assert demand(CardGrant(0, 16, whole=True), CardGrant(1, 16, whole=True)) == Demand(2, 0, True, 1, 2)
    assert demand(unplaced=4) == Demand(1, 4, False, 1, 2)
    assert demand() is None


def test_of_nodes_that_lose_nothing_the_one_in_use_is_better() -> None:
    """Four typical pods fill a card, so none is lost whatever card is taken; an untouched node is worth leaving."""
    ledger = Ledger()
    for name in ("a", "b", "c"):
        ledger.set_node(name, cards(16, 16), GIB_UNIT)
    ledger.apply(held("p", "b", (1, 4)))
    fill = LearnedFill(nothing_is_known)
    fill.learn({Demand(units=4): 3}, 16)
    scores = {name: fill.score(node, CardRequest(4), NO_AMOUNTS) for name, node in ledger.nodes.items()}
    assert scores["b"] > scores["a"] == scores["c"]
