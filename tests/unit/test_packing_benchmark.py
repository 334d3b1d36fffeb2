"""The simulator's policies and its lazily kept scores, on clusters small enough to check by hand or by brute force."""

from __future__ import annotations

import random

import pytest
from benchmarks.packing.bounds import compute_bounds
from benchmarks.packing.churn import Churn, run_churn
from benchmarks.packing.cluster import SimulatedCluster
from benchmarks.packing.policies import POLICIES, Given, make_policy
from benchmarks.packing.runs import Placer
from benchmarks.packing.workload import EmptyNode, build_workload

from gcushare.core.packing.expected_fill import Demand

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
    small = Demand(1, 300, False, 100, 100)
    assert placer.place("small", small) == 1
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
