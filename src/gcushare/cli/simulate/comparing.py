"""Several policies on several workloads, one process per core, in an order that does not depend on which ends first."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from statistics import mean, pstdev
from typing import TypeVar

from gcushare.cli.simulate.bound import Bounds, compute_bounds
from gcushare.cli.simulate.churn import Churn, ChurnRun, run_churn
from gcushare.cli.simulate.runs import Experiment, Run, run_policy
from gcushare.cli.simulate.trace import NodeSpec
from gcushare.cli.simulate.what_if import nodes_needed
from gcushare.cli.simulate.workload import Order, arrange, build_workload
from gcushare.core.packing.expected_fill import Demand

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared: nodes, the trace, how much of the cluster's cards is asked for, and which seeds.

    ``load`` None takes the trace's pods as they are, once each.
    """

    nodes: tuple[NodeSpec, ...]
    trace: tuple[Demand, ...]
    load: float | None
    seeds: tuple[int, ...]
    policies: tuple[str, ...]
    order: Order = Order.SHUFFLED

    def experiment(self, seed: int) -> Experiment:
        """Build the workload of one seed."""
        if self.load is None:
            return Experiment(self.nodes, self.trace, arrange(self.trace, seed, self.order), seed)
        card_units = max(node.card_units for node in self.nodes)
        limit = int(self.load * sum(node.units for node in self.nodes))
        return Experiment(self.nodes, self.trace, build_workload(self.trace, limit, card_units, seed, self.order), seed)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs by policy, in order of seed, and the bounds by seed; bounds are None where cards differ in size."""

    runs: Mapping[str, tuple[Run, ...]]
    bounds: tuple[Bounds, ...] | None

    def mean_allocated(self, policy: str) -> float:
        return mean(run.allocated for run in self.runs[policy])

    def spread_allocated(self, policy: str) -> float:
        """The standard deviation over the seeds."""
        return pstdev(run.allocated for run in self.runs[policy])


def compare(plan: Plan, workers: int, done: Callable[[int, int], None] = lambda _done, _of: None) -> Comparison:
    """Run every policy on every seed; ``done`` is told how many runs of how many have ended."""
    jobs = [(policy, seed) for seed in plan.seeds for policy in plan.policies]
    runs: dict[tuple[str, int], Run] = {}
    for job, run in _run_all(partial(_run, plan), jobs, workers):
        runs[job] = run
        done(len(runs), len(jobs))
    has_one_size = len({node.card_units for node in plan.nodes}) == 1
    experiments = [plan.experiment(seed) for seed in plan.seeds] if has_one_size else []
    bounds = tuple(compute_bounds(plan.nodes, each.workload) for each in experiments)
    by_policy = {policy: tuple(runs[policy, seed] for seed in plan.seeds) for policy in plan.policies}
    return Comparison(by_policy, bounds or None)


def compare_churn(
    plan: Plan, churn: Churn, workers: int, done: Callable[[int, int], None] = lambda _done, _of: None
) -> dict[str, list[ChurnRun]]:
    """Let pods come and go by every policy on every seed; the runs by policy, in order of seed."""
    jobs = [(policy, seed) for seed in plan.seeds for policy in plan.policies]
    work = partial(_churn, plan, churn)
    runs: dict[tuple[str, int], ChurnRun] = {}
    for job, run in _run_all(work, jobs, workers):
        runs[job] = run
        done(len(runs), len(jobs))
    return {policy: [runs[policy, seed] for seed in plan.seeds] for policy in plan.policies}


def compare_needs(
    plan: Plan, workers: int, done: Callable[[int, int], None] = lambda _done, _of: None
) -> dict[str, list[NodeSpec]]:
    """The nodes of the plan's mix that each policy needs for the trace's pods, by the first seed's order.

    Raises:
        Refused: as ``what_if.nodes_needed``.
    """
    jobs = [(policy, plan.seeds[0]) for policy in plan.policies]
    found: dict[str, list[NodeSpec]] = {}
    for (policy, _), nodes in _run_all(partial(_needs, plan), jobs, workers):
        found[policy] = nodes
        done(len(found), len(jobs))
    return {policy: found[policy] for policy in plan.policies}


_Job = tuple[str, int]


def _run_all(work: Callable[[str, int], T], jobs: Sequence[_Job], workers: int) -> Iterator[tuple[_Job, T]]:
    if workers == 1 or len(jobs) == 1:
        for job in jobs:
            yield job, work(*job)
        return
    # A fresh interpreter per worker: a fork would copy locks of threads that are not there any more.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        futures = {pool.submit(work, *job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _run(plan: Plan, policy: str, seed: int) -> Run:
    return run_policy(policy, plan.experiment(seed))


def _churn(plan: Plan, churn: Churn, policy: str, seed: int) -> ChurnRun:
    return run_churn(policy, plan.nodes, plan.trace, churn, seed)


def _needs(plan: Plan, policy: str, seed: int) -> list[NodeSpec]:
    return nodes_needed(policy, plan.nodes, plan.experiment(seed).workload, seed)
