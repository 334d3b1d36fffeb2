"""Runs several policies on several workloads, one process per core, and finds how many nodes each policy needs.

The order of results does not depend on timing.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean, pstdev
from typing import TypeVar

from gcushare.cli.simulate.bounds import Bounds, compute_bounds
from gcushare.cli.simulate.churn import Churn, ChurnRun, run_churn
from gcushare.cli.simulate.cluster import SimulatedCluster
from gcushare.cli.simulate.policies import Given, make_policy
from gcushare.cli.simulate.runs import Placer, Run, run_policy
from gcushare.cli.simulate.simulate_settings import Order
from gcushare.cli.simulate.workload import NodeSpec, arrange, build_workload, units_of
from gcushare.core.errors import Refused
from gcushare.core.packing.expected_fill import Demand, Room

T = TypeVar("T")

MAX_TIMES = 64
"""How many times the given nodes may be needed before the search gives up."""

Done = Callable[[int, int], None]
"""Called with how many runs of how many have ended."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared: nodes, the trace, how much of the cluster's cards is requested, and the seeds.

    ``load`` None takes the trace's pods as they are, once each. ``cards_alone``: see ``policies.Given``.
    """

    nodes: tuple[NodeSpec, ...]
    trace: tuple[Demand, ...]
    load: float | None
    seeds: tuple[int, ...]
    policies: tuple[str, ...]
    order: Order = Order.SHUFFLED
    cards_alone: bool = False

    def workload(self, seed: int) -> list[Demand]:
        """Build the arrivals of one seed."""
        if self.load is None:
            return arrange(self.trace, seed, self.order)
        card_units = max(node.card_units for node in self.nodes)
        limit = int(self.load * sum(node.units for node in self.nodes))
        return build_workload(self.trace, limit, card_units, seed, self.order)

    def run(self, policy: str, seed: int) -> Run:
        return run_policy(policy, self.nodes, self.trace, self.workload(seed), seed, cards_alone=self.cards_alone)

    def run_churn(self, churn: Churn, policy: str, seed: int) -> ChurnRun:
        return run_churn(policy, self.nodes, self.trace, churn, seed, cards_alone=self.cards_alone)

    def find_needs(self, policy: str, seed: int) -> list[NodeSpec]:
        return nodes_needed(policy, self.nodes, self.workload(seed), seed, cards_alone=self.cards_alone)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs by policy, in order of seed, and the bounds by seed; bounds are None if cards differ in size."""

    runs: Mapping[str, Sequence[Run]]
    bounds: tuple[Bounds, ...] | None

    def mean_allocated(self, policy: str) -> float:
        return mean(run.allocated for run in self.runs[policy])

    def spread_allocated(self, policy: str) -> float:
        """The standard deviation over the seeds."""
        return pstdev(run.allocated for run in self.runs[policy])


def compare(plan: Plan, workers: int, done: Done = lambda _done, _of: None) -> Comparison:
    """Run every policy on every seed."""
    runs = run_all(plan.run, plan.policies, plan.seeds, workers, done)
    has_one_size = len({node.card_units for node in plan.nodes}) == 1
    bounds = tuple(compute_bounds(plan.nodes, plan.workload(seed)) for seed in plan.seeds) if has_one_size else None
    return Comparison(runs, bounds)


def compare_churn(
    plan: Plan, churn: Churn, workers: int, done: Done = lambda _done, _of: None
) -> dict[str, list[ChurnRun]]:
    """Let pods come and go under every policy and seed; the runs by policy, in order of seed."""
    return run_all(partial(plan.run_churn, churn), plan.policies, plan.seeds, workers, done)


def compare_needs(plan: Plan, workers: int, done: Done = lambda _done, _of: None) -> dict[str, list[NodeSpec]]:
    """The nodes of the plan's mix that each policy needs for the trace's pods, by the first seed's order.

    Raises:
        Refused: as ``nodes_needed``.
    """
    found = run_all(plan.find_needs, plan.policies, plan.seeds[:1], workers, done)
    return {policy: nodes for policy, (nodes,) in found.items()}


def run_all(
    work: Callable[[str, int], T], policies: Sequence[str], seeds: Sequence[int], workers: int, done: Done
) -> dict[str, list[T]]:
    """Do the work for each policy and seed, ``workers`` at a time; the results by policy, in order of seed.

    If a job or ``done`` raises, jobs that have not begun are dropped.
    """
    jobs = [(policy, seed) for seed in seeds for policy in policies]
    found: dict[tuple[str, int], T] = {}
    if workers == 1 or len(jobs) == 1:
        for job in jobs:
            found[job] = work(*job)
            done(len(found), len(jobs))
    else:
        # A fresh interpreter per worker: a fork would copy locks of threads that are not there any more.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
            futures = {pool.submit(work, *job): job for job in jobs}
            try:
                for future in as_completed(futures):
                    found[futures[future]] = future.result()
                    done(len(found), len(jobs))
            except BaseException:
                # Leaving the pool would wait for every job, also after Ctrl-C; those that run have to end.
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return {policy: [found[policy, seed] for seed in seeds] for policy in policies}


def nodes_needed(
    policy: str, nodes: Sequence[NodeSpec], pods: Sequence[Demand], seed: int, *, cards_alone: bool = False
) -> list[NodeSpec]:
    """The fewest nodes of the given mix on which the policy places every pod, by bisection.

    Nodes are taken from the mix evenly, so that any number of them resembles it. Bisection assumes that more nodes
    never place fewer pods. A heuristic does not promise that, but the result suffices and one node fewer does not.
    ``cards_alone``: see ``policies.Given``.

    Raises:
        Refused: a pod fits on no node however many there are, or ``MAX_TIMES`` times the given nodes are not enough.
    """
    misfits = [
        pod
        for pod in sorted(set(pods))
        if not any(
            Room(node.cpu_milli, node.memory_mib, (), (node.card_units,) * node.cards, node.model).fits(pod)
            for node in set(nodes)
        )
    ]
    if misfits:
        raise Refused(f"no number of these nodes is enough: {misfits[0]} fits on none even when it is empty")

    def suffices(count: int) -> bool:
        cluster = SimulatedCluster(mixed(nodes, count))
        placer = Placer(cluster, make_policy(policy, Given(cluster, pods, seed, cards_alone)))
        return all(placer.place(str(number), pod) is not None for number, pod in enumerate(pods))

    card_units = max(node.card_units for node in nodes)
    asked = sum(units_of(pod, card_units) for pod in pods)
    low, high = 0, max(1, asked * len(nodes) // sum(node.units for node in nodes))
    while not suffices(high):
        low, high = high, high * 5 // 4 + 1
        if high > MAX_TIMES * len(nodes):
            raise Refused(f"{low} nodes are not enough for policy {policy!r}; the search ends here")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return mixed(nodes, high)


def mixed(nodes: Sequence[NodeSpec], count: int) -> list[NodeSpec]:
    """``count`` nodes in the proportions of the given ones, each kind as often as its share says."""
    kinds = Counter(replace(node, name="") for node in nodes)
    shares = sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0].model, pair[0].cards, pair[0].cpu_milli))
    points = sorted(
        ((position + 0.5) / amount, rank) for rank, (_, amount) in enumerate(shares) for position in range(amount)
    )
    ranks = [rank for _, rank in points]
    return [replace(shares[ranks[n % len(ranks)]][0], name=f"node-{n:05d}") for n in range(count)]
