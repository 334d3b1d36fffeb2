"""Measure how much of a published cluster each placement policy fills, as docs/packing.md reports it.

    python -m benchmarks.bench_packing FOLDER                            three traces, ten seeds, some minutes
    python -m benchmarks.bench_packing FOLDER --trace default --seeds 1   one of each, under a minute on two cores

FOLDER holds ``openb_node_list_gpu_node.csv`` and ``openb_pod_list_TRACE.csv`` of Alibaba's cluster-trace-gpu-v2023. The
exit status is 1 where a baseline is further than a percentage point from its published mean; few seeds may be unlucky.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import mean

from gcushare.cli.simulate.comparing import Comparison, Plan, compare
from gcushare.cli.simulate.policies import POLICIES
from gcushare.cli.simulate.simulate_settings import DEFAULT_POLICIES
from gcushare.cli.simulate.workload import read_nodes, read_pods

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


def main() -> int:
    """Run what the arguments ask for and print one table per trace."""
    parser = argparse.ArgumentParser(prog="bench_packing", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trace", action="append", help="part of openb_pod_list_TRACE.csv; repeatable")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=42)
    parser.add_argument("--policy", action="append", choices=sorted(POLICIES), help="repeatable")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cards-alone", action="store_true", help="as gcushare simulate --cards-alone")
    args = parser.parse_args()
    policies = tuple(args.policy or DEFAULT_POLICIES)
    nodes = tuple(read_nodes(args.folder / "openb_node_list_gpu_node.csv"))
    seeds = tuple(range(args.first_seed, args.first_seed + args.seeds))
    far = 0
    for trace in args.trace or TRACES:
        pods = tuple(read_pods(args.folder / f"openb_pod_list_{trace}.csv"))
        started = time.perf_counter()
        comparison = compare(Plan(nodes, pods, LOAD, seeds, policies, cards_alone=args.cards_alone), args.jobs)
        far += _print(trace, policies, comparison, is_published=not args.cards_alone)
        print(f"{len(seeds)} seeds in {time.perf_counter() - started:.0f} s", flush=True)
    return 1 if far else 0


def _print(trace: str, policies: tuple[str, ...], comparison: Comparison, *, is_published: bool) -> int:
    """Print one trace's table; returns how many policies are far from what was published of them."""
    means = PUBLISHED.get(trace, ()) if is_published else ()
    published = dict(zip(PUBLISHED_POLICIES, means, strict=False))
    print(f"\n{trace}\n{'policy':24}{'mean %':>8}{'spread':>8}{'published':>11}{'difference':>12}")
    far = 0
    for policy in policies:
        reached = 100 * comparison.mean_allocated(policy)
        line = f"{policy:24}{reached:8.2f}{100 * comparison.spread_allocated(policy):8.2f}"
        if policy in published:
            difference = reached - published[policy]
            far += abs(difference) > NEAR
            line += f"{published[policy]:11.1f}{difference:+12.2f}"
        print(line)
    if comparison.bounds is not None:
        print(f"{'no policy can exceed':24}{100 * mean(each.least for each in comparison.bounds):8.2f}")
    return far


if __name__ == "__main__":
    sys.exit(main())
