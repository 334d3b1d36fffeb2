"""Measure how long the extender counts the nodes that waiting pods need, and how long it keeps other tasks waiting.

python -m benchmarks.bench_nodes_needed            1,000 waiting pods on 100 and on 5,000 nodes

Pods ask for 2 to 16 units and 0.25 to 2 cores. Every card of a full cluster has one unit free, so each kind of pod is
compared with each node; in an empty one every pod is placed. CPU time of one core; a turn is what runs between two
yields to other tasks.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from itertools import product

import msgspec
from tests.extender_objects import a_node, on_card, pod_document, state_of

from gcushare.core.other_resources import Amounts, SpareResources
from gcushare.scheduler_extender.nodes_needed import NodesNeededService
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.objects import Pod

CARDS = 8
PODS = 1000
UNITS = (2, 3, 4, 5, 6, 8, 10, 12, 16)


def make_cluster(nodes: int, *, is_full: bool) -> tuple[VendorState, SpareResources]:
    """Make nodes of 8 cards with 16 units, and the waiting pods."""
    chance, spare = random.Random(1), SpareResources()
    state = state_of(*(a_node(f"node-{number}", *[16] * CARDS) for number in range(nodes)))
    for number in range(nodes):
        spare.offer(f"node-{number}", Amounts(64_000, 256_000))
    for number, card in product(range(nodes if is_full else 0), range(CARDS)):
        holder = pod_document(f"held-{number}-{card}", 15, node=f"node-{number}", record=on_card(card, 15))
        state.on_pod_update(msgspec.convert(holder, Pod))
    for number in range(PODS):
        waiting = pod_document(f"waiting-{number}", chance.choice(UNITS))
        waiting["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{250 * chance.randint(1, 8)}m"
        state.on_pod_update(msgspec.convert(waiting, Pod))
    gc.collect()
    gc.freeze()  # As the extender does after its first lists.
    return state, spare


async def measure(service: NodesNeededService) -> tuple[float, float, str]:
    """Count once; returns the CPU time and the longest turn in milliseconds, and the answer."""
    turns = [0.0]

    async def watch_turns() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            turns.append(now - last)
            last = now

    watching = asyncio.create_task(watch_turns(), name="watch turns")
    started = time.process_time()
    found = await service.count()
    taken_s = time.process_time() - started
    watching.cancel()
    (each,) = found.classes
    return 1e3 * taken_s, 1e3 * max(turns), f"{found.fit_now} fit now, {each.nodes} nodes more"


def main() -> None:
    """Print one line per cluster."""
    print("| nodes | cards | CPU, ms | longest turn, ms | answer |\n|---|---|---|---|---|")
    for nodes, is_full in ((100, True), (5000, True), (5000, False)):
        cpu_ms, turn_ms, answer = asyncio.run(measure(NodesNeededService(*make_cluster(nodes, is_full=is_full))))
        print(f"| {nodes} | {'full' if is_full else 'empty'} | {cpu_ms:.0f} | {turn_ms:.1f} | {answer} |")


if __name__ == "__main__":
    main()
