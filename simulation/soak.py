"""``make soak``: runs on every core until the time is over; a seed that fails is shrunk and shown as a history."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from simulation.bugs import BUGS
from simulation.claims_schedule import CLAIM_BUGS, make_claims_schedule
from simulation.drawing import make_schedule
from simulation.host_schedule import HOST_BUGS, make_host_schedule
from simulation.run import AnySchedule, Outcome, run
from simulation.schedule import Schedule
from simulation.shrink import shrink

REPORT_S = 30.0
_LINES = 120


def main(arguments: list[str] | None = None) -> int:
    """Run as the command line says; returns 1 where an invariant was violated."""
    options = _parse(arguments)
    seeds: Iterable[int] = range(options.first, options.first + options.seeds) if options.seeds else itertools.count(
        options.first
    )  # fmt: skip
    deadline = time.monotonic() + options.minutes * 60 if options.minutes else None
    draw = partial(
        make_any_schedule,
        rounds=options.rounds,
        quiet_hours=options.quiet_hours,
        planted=options.bug,
        lease=tuple(options.lease) if options.lease else None,
    )
    tasks = map(draw, _until(seeds, deadline))
    total = Totals()
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=200) as pool:
        for outcome in pool.imap_unordered(run, _throttled(tasks, options.processes, total)):
            total.add(outcome)
            if options.results is not None:
                with options.results.open("ab") as file:
                    file.write(msgspec.json.encode(outcome) + b"\n")
            if outcome.violation is not None:
                print(f"seed {outcome.seed}: {outcome.violation.invariant}: {outcome.violation.words}", flush=True)
    total.print()
    for seed in total.failed[: options.explain]:
        explain(draw(seed))
    return 1 if total.failed else 0


def make_any_schedule(
    seed: int, *, rounds: int, quiet_hours: int, planted: str, lease: tuple[float, float, float] | None = None
) -> AnySchedule:
    """The run of a seed: of each five one is of the hosts, one of claims, and three of the cluster, with ``lease``."""
    if planted in HOST_BUGS or (not planted and seed % 5 == 4):
        return make_host_schedule(seed, rounds=rounds, quiet=quiet_hours > 0, planted=planted)
    if planted in CLAIM_BUGS or (not planted and seed % 5 == 3):
        return make_claims_schedule(seed, rounds=rounds, planted=planted)
    schedule = make_schedule(seed, rounds=rounds, quiet_hours=quiet_hours, planted=planted)
    return schedule if lease is None else replace(schedule, settings=replace(schedule.settings, lease=lease))


class Totals:
    """What all runs came to."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.reported = self.started
        self.hours = {"cluster": 0.0, "hosts": 0.0, "claims": 0.0}
        self.runs: Counter[str] = Counter()
        self.steps, self.cpu_s = 0, 0.0
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.failed: list[int] = []

    def add(self, outcome: Outcome) -> None:
        """Count a run."""
        self.runs[outcome.world] += 1
        self.hours[outcome.world] += outcome.hours
        self.steps += outcome.steps
        self.cpu_s += outcome.cpu_s
        self.faults += outcome.faults
        self.counts += outcome.counts
        if outcome.violation is not None:
            self.failed.append(outcome.seed)
        if time.monotonic() - self.reported > REPORT_S:
            self.reported = time.monotonic()
            print(self.line(), flush=True)

    def line(self) -> str:
        """Where it stands."""
        minutes = (time.monotonic() - self.started) / 60
        return (
            f"{minutes:.1f} min: {self.runs.total()} runs ({self.runs['hosts']} of hosts, {self.runs['claims']} of "
            f"claims), "
            f"{sum(self.hours.values()):.1f} simulated hours ({self.hours['hosts']:.1f}), {self.steps} steps, "
            f"{self.faults.total()} faults, {len(self.failed)} violations, {self.cpu_s:.0f} s of CPU"
        )

    def print(self) -> None:
        """The whole account."""
        print(self.line())
        for title, counter in (("faults", self.faults), ("what happened", self.counts)):
            print(f"{title}:")
            for kind, count in counter.most_common():
                print(f"  {count:9d}  {kind}")
        print(f"violations: {self.failed or 'none'}", flush=True)


def explain(schedule: AnySchedule) -> None:
    """Show why a schedule fails: the shortest like it, and what happens in it."""
    outcome = run(schedule)
    if outcome.violation is None:
        print(f"seed {schedule.seed} does not fail", flush=True)
        return
    print(f"\nseed {schedule.seed}: shrinking {len(schedule.actions)} actions", flush=True)
    short, runs = shrink(schedule, outcome.violation)
    again = run(short, keeps_history=True)
    print(f"{len(short.actions)} of {len(schedule.actions)} actions are left after {runs} runs")
    if isinstance(short, Schedule):
        print(f"settings: {short.settings}")
    for action in short.actions:
        print(f"  {action.words()}")
    print("what happens:")
    for line in again.history[-_LINES:]:
        print(f"  {line}")
    print(f"digest {again.digest}", flush=True)


def _until(seeds: Iterable[int], deadline: float | None) -> Iterator[int]:
    for seed in seeds:
        if deadline is not None and time.monotonic() >= deadline:
            return
        yield seed


def _throttled(tasks: Iterator[AnySchedule], processes: int, total: Totals) -> Iterator[AnySchedule]:
    """Hand out tasks only a few ahead of the answers: a pool would take all of them at once."""
    for number, task in enumerate(tasks):
        while number - total.runs.total() >= 3 * processes:
            time.sleep(0.05)
        yield task


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation.soak", description=__doc__)
    parser.add_argument("--seeds", type=int, default=0, help="how many runs; 0 for as many as the time allows")
    parser.add_argument("--minutes", type=float, default=0.0, help="after so long no run is begun; 0 for no limit")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rounds", type=int, default=1, help="storms, each followed by calm, in a run")
    parser.add_argument("--quiet-hours", type=int, default=3, help="hours after each storm in which little happens")
    parser.add_argument(
        "--lease",
        type=float,
        nargs=3,
        metavar=("DURATION", "DEADLINE", "RETRY"),
        help="seconds of the extender's election in every run, not as drawn: it is half of a quiet hour's CPU",
    )
    parser.add_argument("--results", type=Path, help="a file to which each run's outcome is added, one JSON a line")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many at once")
    parser.add_argument(
        "--bug", choices=sorted((*BUGS, *HOST_BUGS, *CLAIM_BUGS)), default="", help="a bug to put in, to see it found"
    )
    parser.add_argument("--explain", type=int, default=1, help="how many failing seeds to shrink and show")
    options = parser.parse_args(arguments)
    if not options.seeds and not options.minutes:
        parser.error("give --seeds or --minutes: neither would run without an end")
    return options


if __name__ == "__main__":
    sys.exit(main())
