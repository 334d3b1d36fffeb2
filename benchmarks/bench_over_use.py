"""Measure what one poll of the processes of a card costs, and how much of it is following over-use.

Prints a Markdown table: milliseconds of CPU per measurement of 16 pods, half of them over their grant. Run:
``python -m benchmarks.bench_over_use``.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from tests.unit.over_use_node import OverUseNode

PODS = 16
COUNTS = (16, 64, 256)
ROUNDS = 50


async def measure(processes: int) -> tuple[float, float]:
    """The median of a whole poll after the card was read, and of its part that follows over-use; in ms."""
    with tempfile.TemporaryDirectory() as folder:
        node = OverUseNode(Path(folder), pods=PODS)
        each = processes // PODS
        gib: dict[int, float] = {}
        for number in range(PODS):
            pids = range(1000 + number * each, 1000 + (number + 1) * each)
            node.start(f"p{number}", *pids)
            gib |= dict.fromkeys(pids, (5 if number % 2 else 1) / each)
        node.use(gib)
        await node.poll()
        whole, own = [], []
        for _ in range(ROUNDS):
            started = time.process_time()
            await node.pod_use.refresh()
            found = time.process_time()
            node.watch.on_poll()
            ended = time.process_time()
            whole.append(ended - started)
            own.append(ended - found)
        if len(node.watch.over) != PODS // 2:
            raise SystemExit(f"{len(node.watch.over)} pods are over, not {PODS // 2}")
        return statistics.median(whole) * 1000, statistics.median(own) * 1000


def main() -> None:
    """Measure each number of processes."""
    print("| processes | a poll, ms | of it over-use, ms |\n|---|---|---|")
    for count in COUNTS:
        whole_ms, own_ms = asyncio.run(measure(count))
        print(f"| {count} | {whole_ms:.2f} | {own_ms:.2f} |")


if __name__ == "__main__":
    main()
