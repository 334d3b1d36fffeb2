"""Runs several policies on several workloads, one process per core. The order of results does not depend on timing."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from statistics import mean, pstdev
from typing import TypeVar

from gcushare.cli.simulate.bound import Bounds, compute_bounds
from gcushare.cli.simulate.churn import Churn, ChurnRun, run_churn
from gcushare.cli.simulate.runs import Experiment, Run, run_policy
from gcushare.cli.simulate.simulate_settings import Order
from gcushare.cli.simulate.what_if import nodes_needed
from gcushare.cli.simulate.workload import NodeSpec, arrange, build_workload
from gcushare.core.packing.expected_fill import Demand

T = TypeVar("T")

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

    def experiment(self, seed: int) -> Experiment:
        """Build the workload of one seed."""
        if self.load is None:
            pods = arrange(self.trace, seed, self.order)
            return Experiment(self.nodes, self.trace, pods, seed, self.cards_alone)
        card_units = max(node.card_units for node in self.nodes)
        limit = int(self.load * sum(node.units for node in self.nodes))
        pods = build_workload(self.trace, limit, card_units, seed, self.order)
        return Experiment(self.nodes, self.trace, pods, seed, self.cards_alone)


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
    runs = run_all(partial(_run, plan), plan.policies, plan.seeds, workers, done)
    has_one_size = len({node.card_units for node in plan.nodes}) == 1
    experiments = [plan.experiment(seed) for seed in plan.seeds] if has_one_size else []
    bounds = tuple(compute_bounds(plan.nodes, each.workload) for each in experiments)
    return Comparison(runs, bounds or None)


def compare_churn(
    plan: Plan, churn: Churn, workers: int, done: Done = lambda _done, _of: None
) -> dict[str, list[ChurnRun]]:
    """Let pods come and go under every policy and seed; the runs by policy, in order of seed."""
    return run_all(partial(_churn, plan, churn), plan.policies, plan.seeds, workers, done)


def compare_needs(plan: Plan, workers: int, done: Done = lambda _done, _of: None) -> dict[str, list[NodeSpec]]:
    """The nodes of the plan's mix that each policy needs for the trace's pods, by the first seed's order.

    Raises:
        Refused: as ``what_if.nodes_needed``.
    """
    found = run_all(partial(_needs, plan), plan.policies, plan.seeds[:1], workers, done)
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


def _run(plan: Plan, policy: str, seed: int) -> Run:
    return run_policy(policy, plan.experiment(seed))


def _churn(plan: Plan, churn: Churn, policy: str, seed: int) -> ChurnRun:
    return run_churn(policy, plan.nodes, plan.trace, churn, seed, cards_alone=plan.cards_alone)


def _needs(plan: Plan, policy: str, seed: int) -> list[NodeSpec]:
    pods = plan.experiment(seed).workload
    return nodes_needed(policy, plan.nodes, pods, seed, cards_alone=plan.cards_alone)
