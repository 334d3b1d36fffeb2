"""Measure what it costs to find the pods of processes in the kernel's own /proc.

Prints a Markdown table: milliseconds per call, for processes that are new and for those that are known. Run:
``python -m benchmarks.bench_process_owners``.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.fake_proc import FakeProc, cgroup_of

from gcushare.cards.process_owners import PROC, ProcessOwners

COUNTS = (8, 64, 256)
ROUNDS = 50


def main() -> None:
    """Start as many processes as are asked about, and ask again and again."""
    sleepers = [subprocess.Popen(["sleep", "600"]) for _ in range(max(COUNTS))]
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = make_root(Path(folder), [sleeper.pid for sleeper in sleepers])
            print("| processes | new, ms | known, ms |\n|---|---|---|")
            for count in COUNTS:
                pids = [sleeper.pid for sleeper in sleepers[:count]]
                known = ProcessOwners(root)
                if len(known.find(pids)) != count:
                    raise SystemExit(f"not all of the {count} processes were found")
                new_ms = median_ms(partial(find_anew, root, pids))
                known_ms = median_ms(partial(known.find, pids))
                print(f"| {count} | {new_ms:.1f} | {known_ms:.1f} |")
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def make_root(folder: Path, pids: list[int]) -> Path:
    """The kernel's start times with a pod's control group each: this machine's processes are in none."""
    proc = FakeProc(folder / "proc")
    for pid in pids:
        proc.start(pid, cgroup_of(str(uuid.uuid4())))
        stat = proc.root / str(pid) / "stat"
        stat.unlink()
        stat.symlink_to(PROC / str(pid) / "stat")
    return proc.root


def find_anew(root: Path, pids: list[int]) -> None:
    ProcessOwners(root).find(pids)


def median_ms(call: Callable[[], object]) -> float:
    """The median time of one call."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


if __name__ == "__main__":
    main()
