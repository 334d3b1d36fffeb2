"""Measure how much of a published cluster each placement policy fills, as docs/packing.md reports it.

    python -m benchmarks.bench_packing FOLDER                            three traces, ten seeds, some minutes
    python -m benchmarks.bench_packing FOLDER --trace default --seeds 1   one of each, under a minute on two cores

FOLDER holds ``openb_node_list_gpu_node.csv`` and ``openb_pod_list_TRACE.csv`` of Alibaba's cluster-trace-gpu-v2023. The
exit status is 1 where a baseline is further than a percentage point from its published mean; few seeds may be unlucky.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean, pstdev

from benchmarks.packing.bounds import compute_bounds
from benchmarks.packing.churn import Churn, ChurnRun, run_churn
from benchmarks.packing.cluster import SimulatedCluster
from benchmarks.packing.policies import POLICIES, Given, make_policy
from benchmarks.packing.runs import run_policy
from benchmarks.packing.workload import EmptyNode, build_workload, read_nodes, read_pods
from gcushare.core.packing.expected_fill import Demand

LOAD = 1.3
TRACES = ("default", "gpushare40", "multigpu20")
PUBLISHED = {
    "default": (87.5, 90.8, 91.9, 92.0, 93.1, 95.4),
    "gpushare40": (86.0, 89.6, 90.0, 90.0, 91.7, 94.1),
    "multigpu20": (88.7, 92.1, 93.6, 93.7, 93.9, 95.7),
}
"""Means of ten seeds in "Beware of Fragmentation" (USENIX ATC 2023), in the order of ``PUBLISHED_POLICIES``."""

PUBLISHED_POLICIES = ("random", "dot-product", "clustering", "packing", "best-fit", "fgd")
NEAR = 1.0
LARGE = 8
"""Whole cards from which a pod counts as large."""


DEFAULT_POLICIES = (*PUBLISHED_POLICIES, "expected-fill")

Nodes = tuple[EmptyNode, ...]
Pods = tuple[Demand, ...]


def main() -> int:
    """Run what the arguments ask for and print one table per trace."""
    parser = argparse.ArgumentParser(prog="bench_packing", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trace", action="append", help="part of openb_pod_list_TRACE.csv; repeatable")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=42)
    parser.add_argument("--policy", action="append", choices=sorted(POLICIES), help="repeatable")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cards-alone", action="store_true", help="kube-scheduler places the pods without cards")
    parser.add_argument("--churn", type=float, metavar="LIFETIMES", help="pods end after one lifetime on average")
    parser.add_argument("--load", type=float, default=0.9, help="with --churn: the share of the cards asked for")
    args = parser.parse_args()
    policies = tuple(args.policy or DEFAULT_POLICIES)
    nodes = tuple(read_nodes(args.folder / "openb_node_list_gpu_node.csv"))
    seeds = tuple(range(args.first_seed, args.first_seed + args.seeds))
    jobs = [(policy, seed) for policy in policies for seed in seeds]
    far = 0
    for trace in args.trace or TRACES:
        pods = tuple(read_pods(args.folder / f"openb_pod_list_{trace}.csv"))
        started = time.perf_counter()
        # A fresh interpreter per worker: a fork would copy locks of threads that are not there any more.
        with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            if args.churn is not None:
                churn = Churn(args.load, args.churn, LARGE)
                _print_churn(trace, list(pool.map(partial(run_with_churn, nodes, pods, churn), jobs)))
            else:
                runs = list(pool.map(partial(run_once, nodes, pods, cards_alone=args.cards_alone), jobs))
                by_policy = {policy: runs[at * len(seeds) :][: len(seeds)] for at, policy in enumerate(policies)}
                bounds = [compute_bounds(nodes, workload_of(nodes, pods, seed)).least for seed in seeds]
                far += _print(trace, by_policy, mean(bounds), is_published=not args.cards_alone)
        print(f"{len(seeds)} seeds in {time.perf_counter() - started:.0f} s", flush=True)
    return 1 if far else 0


def workload_of(nodes: Nodes, pods: Pods, seed: int) -> list[Demand]:
    """The pods that ask for `LOAD` of all cards."""
    card_units = max(node.card_units for node in nodes)
    return build_workload(pods, int(LOAD * sum(node.units for node in nodes)), card_units, seed)


def run_once(nodes: Nodes, pods: Pods, job: tuple[str, int], *, cards_alone: bool) -> float:
    """Place one seed's workload by one policy."""
    policy, seed = job
    cluster = SimulatedCluster(nodes)
    return run_policy(
        make_policy(policy, Given(cluster, pods, seed, cards_alone)), cluster, workload_of(nodes, pods, seed)
    )


def run_with_churn(nodes: Nodes, pods: Pods, churn: Churn, job: tuple[str, int]) -> ChurnRun:
    """Let pods come and go under one policy."""
    return run_churn(job[0], nodes, pods, churn, job[1])


def _print_churn(trace: str, runs: list[ChurnRun]) -> None:
    print(f"\n{trace}\n{'policy':24}{'seed':>6}{'mean %':>8}{'wait':>8}{'large wait':>12}{'delayed %':>11}{'piece':>7}")
    for run in runs:
        line = f"{run.policy:24}{run.seed:6}{100 * run.allocated:8.2f}{run.waited:8.4f}{run.large_waited:12.4f}"
        print(f"{line}{100 * run.large_refused_at_first:11.2f}{run.largest_piece:7.2f}")


def _print(trace: str, runs: dict[str, list[float]], bound: float, *, is_published: bool) -> int:
    """Print one trace's table; returns how many policies are far from what was published of them."""
    means = PUBLISHED.get(trace, ()) if is_published else ()
    published = dict(zip(PUBLISHED_POLICIES, means, strict=False))
    print(f"\n{trace}\n{'policy':24}{'mean %':>8}{'spread':>8}{'published':>11}{'difference':>12}")
    far = 0
    for policy, found in runs.items():
        allocated = [100 * share for share in found]
        line = f"{policy:24}{mean(allocated):8.2f}{pstdev(allocated):8.2f}"
        if policy in published:
            difference = mean(allocated) - published[policy]
            far += abs(difference) > NEAR
            line += f"{published[policy]:11.1f}{difference:+12.2f}"
        print(line)
    print(f"{'no policy can exceed':24}{100 * bound:8.2f}")
    return far


if __name__ == "__main__":
    sys.exit(main())
