"""The simulator's policies, its lazily kept scores and its bounds, by hand and by brute force on small clusters."""

from __future__ import annotations

import itertools
import random

import pytest
from benchmarks.packing.bounds import compute_bounds
from benchmarks.packing.churn import Churn, run_churn
from benchmarks.packing.cluster import SimulatedCluster
from benchmarks.packing.policies import POLICIES, Given, make_policy
from benchmarks.packing.runs import Placer
from benchmarks.packing.workload import EmptyNode, build_workload

from gcushare.core.packing.expected_fill import Demand, Room, Spot, room_after, spots_of

NODES = [
    *(EmptyNode(f"a-{number}", 16000, 65536, 2, "P100") for number in range(6)),
    *(EmptyNode(f"b-{number}", 64000, 262144, 8, "G2") for number in range(3)),
]
TRACE = [
    *[Demand(1, 810, False, 3152, 5600)] * 8,
    *[Demand(1, 470, False, 11908, 47104)] * 6,
    *[Demand(1, 160, False, 4541, 8000)] * 2,
    *[Demand(1, 0, True, 8000, 30517)] * 14,
    *[Demand(4, 0, True, 20000, 60000)] * 2,
    *[Demand(0, 0, False, 12500, 57344)] * 5,
    Demand(1, 0, True, 1000, 1000, ("P100",)),
]


def workload(seed: int, load: float = 1.3) -> list[Demand]:
    return build_workload(TRACE, int(load * sum(node.units for node in NODES)), 1000, seed)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_policy_fills_within_the_bounds_and_leaves_no_pod_that_would_fit(policy: str, seed: int) -> None:
    pods = workload(seed)
    cluster = SimulatedCluster(NODES)
    placer = Placer(cluster, make_policy(policy, Given(cluster, TRACE, seed)))
    refused = [pod for number, pod in enumerate(pods) if placer.place(str(number), pod) is None]
    assert not [pod for pod in refused if any(node.room.fits(pod) for node in cluster.nodes)]
    assert cluster.used_units / cluster.total_units <= compute_bounds(NODES, pods).least
    for node in cluster.nodes:
        assert node.cpu_milli >= 0
        assert node.memory_mib >= 0
        assert node.state.recount() == []


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"random"}))
def test_scores_that_are_kept_are_those_of_a_policy_that_is_asked_about_every_node_each_time(policy: str) -> None:
    kept, fresh = SimulatedCluster(NODES), SimulatedCluster(NODES)
    placer = Placer(kept, make_policy(policy, Given(kept, TRACE, 1)))
    asked = make_policy(policy, Given(fresh, TRACE, 1))
    draw = random.Random(5)
    for number, pod in enumerate(workload(3)):
        assert placer.place(str(number), pod) == Placer(fresh, asked).place(str(number), pod)
        if number % 4 == 3:  # pods end as well
            uid = draw.choice(sorted(kept.pods))
            kept.end(uid)
            fresh.end(uid)


def test_with_kube_scheduler_pods_without_cards_go_where_most_is_left_and_others_by_the_policy() -> None:
    cluster = SimulatedCluster(NODES)
    placer = Placer(cluster, make_policy("expected-fill", Given(cluster, TRACE, 1, cards_alone=True)))
    other = Demand(0, 0, False, 12000, 1000)
    placed = [placer.place(f"other-{number}", other) for number in range(6)]
    names = [cluster.nodes[index].spec.name for index in placed if index is not None]
    assert names[:3] == ["b-0", "b-1", "b-2"], "the share of the node's own CPU counts"
    assert len(names) == 6

    alone = SimulatedCluster(NODES)
    policy = make_policy("expected-fill", Given(alone, TRACE, 1))
    for number, index in enumerate(placed):
        assert index is not None
        alone.place(f"other-{number}", index, other, None)
    for number, demand in enumerate(pod for pod in TRACE if pod.cards):
        assert placer.place(str(number), demand) == Placer(alone, policy).place(str(number), demand)


def test_plain_claims_take_the_first_card_that_fits_on_the_node_with_most_left() -> None:
    cluster = SimulatedCluster([EmptyNode("a", 8000, 8192, 2, "G2"), EmptyNode("b", 9000, 8192, 2, "G2")])
    placer = Placer(cluster, make_policy("dra-first-fit", Given(cluster, [], 1)))
    share = Demand(1, 600, False, 1000, 1024)
    placed = [placer.place(str(number), share) for number in range(4)]
    assert placed == [1, 0, 1, 0]  # node b first: it has more CPU
    assert placer.place("small", Demand(1, 300, False, 100, 100)) == 1
    assert {index: card.used for index, card in cluster.nodes[1].state.cards.items()} == {0: 900, 1: 600}


@pytest.mark.slow
def test_under_churn_time_is_counted_and_every_arrival_has_a_wait() -> None:
    nodes = [EmptyNode(f"n-{number}", 64000, 65536, 8, "G2") for number in range(3)]
    trace = [Demand(1, 500)] * 12 + [Demand(8, 0, True)]
    run = run_churn("expected-fill", nodes, trace, Churn(0.9, 20.0, 8), 3)
    assert run.arrivals > 100
    assert 0.5 < run.allocated <= 1.0
    assert run.large_waited > run.waited > 0.0
    assert 0.0 < run.large_refused_at_first <= 1.0
    assert run == run_churn("expected-fill", nodes, trace, Churn(0.9, 20.0, 8), 3)


LARGE, SMALL, WHOLE = Demand(1, 810), Demand(1, 190), Demand(1, 0, True)


def nodes(*cards: int, cpu: int = 0) -> list[EmptyNode]:
    return [EmptyNode(f"n-{number}", cpu, 0, count) for number, count in enumerate(cards)]


def best_of_all(rooms: tuple[Room, ...], workload: tuple[Demand, ...]) -> int:
    """The most units over every choice of node and card; a pod that fits somewhere must be placed."""
    if not workload:
        return 0
    pod, rest = workload[0], workload[1:]
    results = []
    for index, room in enumerate(rooms):
        if room.fits(pod):
            spots: list[Spot | None] = [None] if pod.whole or pod.cards != 1 else [*spots_of(room, pod)]
            for spot in spots:
                after = (*rooms[:index], room_after(room, pod, spot), *rooms[index + 1 :])
                results.append(pod.cards * (1000 if pod.whole else pod.units) + best_of_all(after, rest))
    return max(results) if results else best_of_all(rooms, rest)


def test_what_a_large_share_leaves_is_lost_unless_small_ones_come() -> None:
    assert compute_bounds(nodes(2), [LARGE, LARGE]).acceptance == 0.81
    assert compute_bounds(nodes(2), [LARGE, LARGE, SMALL]).acceptance == (2 * 810 + 190) / 2000


def test_cards_that_are_held_whole_first_keep_large_shares_out() -> None:
    assert compute_bounds(nodes(2), [WHOLE, WHOLE, LARGE]).acceptance == 1.0
    assert compute_bounds(nodes(2), [LARGE, WHOLE, WHOLE]).acceptance == 1.81 / 2


def test_what_shares_leave_of_a_card_is_lost_even_if_there_are_many() -> None:
    assert compute_bounds(nodes(2), [Demand(1, 470)] * 4 + [Demand(1, 600)]).acceptance == 2 * 940 / 2000


def test_a_share_that_fills_a_card_does_so_as_often_as_it_is_there() -> None:
    # At best 650 + 300, once 400 + 300 + 300, and 300 three times on the two others.
    pods = [Demand(1, 400), *[Demand(1, 300)] * 20, Demand(1, 650)]
    assert 3750 / 4000 <= compute_bounds(nodes(4), pods).acceptance <= 3760 / 4000


def test_cpu_of_the_whole_cluster_bounds_what_can_be_used() -> None:
    assert compute_bounds(nodes(4, cpu=2000), [Demand(1, 0, True, 1000)] * 4).resources == 0.5


def test_cards_of_different_sizes_are_refused() -> None:
    mixed = [EmptyNode("a", 0, 0, 1, "", 16), EmptyNode("b", 0, 0, 1, "", 32)]
    with pytest.raises(ValueError, match="one size"):
        compute_bounds(mixed, [WHOLE])


# It tries every order of choices.
@pytest.mark.slow
def test_no_choice_exceeds_the_bound() -> None:
    rooms = (Room(0, 0, (), (1000,)), Room(0, 0, (), (1000, 1000)))
    for pods in itertools.product((LARGE, SMALL, WHOLE, Demand(1, 500)), repeat=5):
        bound = compute_bounds(nodes(1, 2), list(pods)).least
        assert best_of_all(rooms, pods) <= bound * 3000 + 1e-6, pods
