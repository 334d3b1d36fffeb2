"""The fill that typical pods are expected to reach: its values, and what a live ledger teaches."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import pytest
from benchmarks.packing.cluster import SimulatedCluster, request_of
from benchmarks.packing.extender_policies import LeastLoss
from benchmarks.packing.runs import Placer
from benchmarks.packing.workload import EmptyNode
from hypothesis import given, settings
from hypothesis import strategies as st

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.change_log import ChangeLog
from gcushare.core.fit_index import FitIndexes, Shape
from gcushare.core.ledger import Ledger
from gcushare.core.other_resources import NO_AMOUNTS, Amounts
from gcushare.core.packing.expected_fill import (
    LARGE_WEIGHT,
    MAX_REDUCED,
    MAX_REMEMBERED,
    PARTS,
    Demand,
    ExpectedFill,
    Room,
    Spot,
    room_after,
    spots_of,
)
from gcushare.core.packing.learned_fill import LearnedFill, demand_held
from gcushare.core.placement import EXPECTED_FILL, POLICIES, choose_cards
from gcushare.core.requests import CardRequest
from tests.builders import GIB_UNIT, cards, held, present

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
            held = present(cluster.ledger.assignment(str(number)))
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


WHOLE = Demand(1, 0, True)


def share(units: int, cpu: int = 0) -> Demand:
    return Demand(1, units, False, cpu)


def room(*, shared: tuple[int, ...] = (), idle: int = 0, cpu: int = 1000) -> Room:
    return Room(cpu, 1000, shared, (1000,) * idle)


def test_what_is_remembered_of_two_vendors_stays_far_below_the_charts_limit() -> None:
    count, first = 5_000, 100_000
    tracemalloc.start()
    values = {
        Room(number, number, tuple(range(number, number + 4)), tuple(range(number + 4, number + 8)), "A100"): -number
        for number in range(first, first + 8 * count, 8)
    }
    bytes_each = tracemalloc.get_traced_memory()[0] / len(values)
    tracemalloc.stop()
    assert 2 * MAX_REMEMBERED * bytes_each < 2**28


def test_pods_of_many_sizes_and_cpu_requests_make_a_bounded_number_of_reduced_sequences() -> None:
    """An author chooses both: without a bound there is one entry per size and CPU request that a node has room for."""
    fill = ExpectedFill({share(2 * number, 2 * number): 1.0 for number in range(1, 81)}, sequences=1, length=80)
    fresh = ExpectedFill({share(2 * number, 2 * number): 1.0 for number in range(1, 81)}, sequences=1, length=80)
    most = 0
    for units in range(1, 162, 2):
        for cpu in range(1, 162, 2):
            fill.value(room(shared=(units,), cpu=cpu))
            most = max(most, len(fill._steps))
    assert most == MAX_REDUCED
    last = room(shared=(3,), cpu=161)
    assert fill.value(last) == fresh.value(last)


@st.composite
def rooms(draw: st.DrawFn) -> Room:
    shared = sorted(draw(st.lists(st.integers(1, 999), max_size=4)))
    idle = draw(st.integers(0, 4))
    return Room(draw(st.integers(0, 5000)), draw(st.integers(0, 5000)), tuple(shared), (1000,) * idle)


DEMANDS = st.one_of(
    st.builds(Demand, st.just(1), st.integers(1, 999), st.just(False), st.integers(0, 2000), st.integers(0, 2000)),
    st.builds(Demand, st.integers(1, 4), st.just(0), st.just(True), st.integers(0, 2000), st.integers(0, 2000)),
    st.builds(Demand, st.integers(2, 3), st.integers(1, 999), st.just(False), st.integers(0, 2000)),
    st.builds(Demand, st.just(0), st.just(0), st.just(False), st.integers(0, 2000), st.integers(0, 2000)),
)


def test_a_small_share_goes_next_to_the_large_one_and_not_if_two_halves_would_have_fitted() -> None:
    fill = ExpectedFill({share(500): 1.0, share(190): 0.2})
    loss, spot = fill.best_spot(room(shared=(190, 500)), share(190))
    assert spot == Spot(190, False)
    assert loss <= fill.loss(room(shared=(190, 500)), share(190), Spot(500, False))


def test_a_share_opens_no_idle_card_that_pods_would_take_whole() -> None:
    fill = ExpectedFill({WHOLE: 1.0, share(400): 1.0})
    assert fill.best_spot(room(shared=(600,), idle=1), share(400))[1] == Spot(600, False)


@pytest.mark.parametrize("rare", [Demand(8, 0, True), Demand(8, 300, False)], ids=["whole", "shares"])
def test_one_card_is_taken_if_no_room_for_a_rare_request_of_many_cards_is_lost(rare: Demand) -> None:
    fill = ExpectedFill({WHOLE: 1000.0, rare: 1.0})
    assert not any(rare in sequence for sequence in fill.sequences)
    assert fill.loss(room(idle=8), WHOLE) > fill.loss(room(idle=7), WHOLE)
    assert fill.loss(room(idle=8, cpu=-1), WHOLE) == fill.loss(room(idle=7, cpu=-1), WHOLE)


def test_cards_of_a_model_that_typical_pods_exclude_are_worth_nothing() -> None:
    fill = ExpectedFill({Demand(1, 0, True, models=("T4",)): 1.0})
    assert fill.value(Room(10, 10, (), (1000,), "G2")) == 0
    assert fill.value(Room(10, 10, (), (1000,), "T4")) == 1000 * PARTS * len(fill.sequences)


def test_the_sequences_hold_each_demand_as_often_as_its_weight_says() -> None:
    typical = {share(100): 3.0, share(200): 2.0, WHOLE: 1.0}
    fill = ExpectedFill(typical, sequences=6, length=40)
    counted = Counter(demand for sequence in fill.sequences for demand in sequence)
    assert counted == {share(100): 120, share(200): 80, WHOLE: 40}
    for sequence in fill.sequences:  # every stretch is typical too
        assert abs(sequence.count(share(100)) - 20) <= 2


def test_the_order_in_which_typical_pods_are_given_does_not_matter() -> None:
    typical = {share(100): 3.0, share(200): 2.0, WHOLE: 1.0}
    backwards = dict(reversed(typical.items()))
    assert ExpectedFill(typical).sequences == ExpectedFill(backwards).sequences


def test_without_typical_pods_there_is_nothing_to_expect() -> None:
    with pytest.raises(ValueError, match="no typical pods"):
        ExpectedFill({WHOLE: 0.0})


@settings(deadline=None)
@given(rooms(), DEMANDS)
def test_a_placement_takes_exactly_what_was_asked_for(found: Room, demand: Demand) -> None:
    if not found.fits(demand):
        return
    spots: list[Spot | None] = [None]
    if demand.cards == 1 and not demand.whole:
        spots += spots_of(found, demand)
    for spot in spots:
        after = room_after(found, demand, spot)
        taken = demand.cards * (1000 if demand.whole else demand.units)
        assert found.free - after.free == taken
        assert found.cpu_milli - after.cpu_milli == demand.cpu_milli
        assert found.memory_mib - after.memory_mib == demand.memory_mib
        assert list(after.shared) == sorted(after.shared)
        assert 0 not in after.shared


@settings(deadline=None)
@given(rooms(), st.lists(DEMANDS, min_size=1, max_size=6))
def test_a_value_is_what_trying_every_pod_of_every_sequence_uses(found: Room, demands: list[Demand]) -> None:
    fill = ExpectedFill(Counter(demands), sequences=3, length=8)
    used = 0
    for sequence in fill.sequences:
        left = found
        for demand in sequence:
            if left.fits(demand):
                left = room_after(left, demand)
        used += found.free - left.free
    weights = {demand: round(LARGE_WEIGHT * 3 * PARTS * n / len(demands)) for demand, n in Counter(demands).items()}
    kept = sum(
        weight * demand.cards * (1000 if demand.whole else demand.units)
        for demand, weight in weights.items()
        if demand.cards > 1 and found.fits(demand)
    )
    assert fill.value(found) == used * PARTS + kept
