"""Bursts of mixed pods on one node, by the hundred thousand: does each get the cards that its own rules allow?

Extender and plugin are the programs' own decisions: the ledger, which pod has to start first, the pod store and the
choice of ids. The kubelet is the simulation's device manager: it admits in any order, gives ids of init containers
again in any order, and does not ask for a preference if it has no choice. The plugin may restart at any moment. Some
nodes get pods that no scheduler placed. No time passes: ``python -m simulation.bursts --count 1000000``.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections import Counter

from simulation.burst_node import BurstNode
from simulation.burst_plugin import RuleBroken

BURSTS_PER_NODE = 20


def play(node: BurstNode) -> None:
    """Create some pods, let everything happen in some order, and check."""
    for _ in range(node.rng.randint(2, 7)):
        node.create()
    while _step(node):
        pass
    settle(node)
    check(node)
    for uid in node.rng.sample(sorted(node.pods), node.rng.randint(0, len(node.pods))):
        node.end(uid)
    del node.waiting[node.rng.randint(0, 3) :]


def settle(node: BurstNode) -> None:
    """Let the plugin see and write all that there is, and its patience for calls that are never shown end."""
    for _ in range(3):
        node.read_kubelet()
        node.store.end_pending(1.0, is_readable=True)
        node.write_records()


def _step(node: BurstNode) -> bool:
    queued = [uid for uid in node.pods if uid not in node.shown]
    choice = node.rng.random()
    if choice < 0.45 and node.bind():
        return True
    if choice < 0.9 and queued:
        node.admit(node.rng.choice(queued))
        return True
    if choice > 0.97:
        node.restart_plugin()
    node.read_kubelet()
    node.write_records()
    return bool(queued) or node.bind()


def check(node: BurstNode) -> None:
    """Check every pod that runs.

    Raises:
        RuleBroken: a pod, its rule and what it has.
    """
    used: Counter[int] = Counter()
    apart: Counter[int] = Counter()
    for uid, pod in node.pods.items():
        (request, _), assignment = node.requests[uid], node.ledger.assignment(uid)
        assert assignment is not None
        held = node.held(uid)
        recorded = {grant.index: grant.units for grant in assignment.grants}
        words = f"{uid} {dict(pod.metadata.annotations)} holds {held}, {request}"
        if len(held) != request.cards.cards or set(held) != set(recorded) or not assignment.assigned:
            raise RuleBroken(f"wrong cards: {words}, recorded {assignment}")
        if not all(request.cards.allows(node.cards[index]) for index in held):
            raise RuleBroken(f"excluded cards: {words}")
        if request.cards.linked and len({node.cards[index].link_group for index in held}) > 1:
            raise RuleBroken(f"cards that are not linked: {words}")
        apart.update(held.keys() if request.cards.apart is not None else ())
        if apart and max(apart.values()) > 1 and not node.by_hand:
            raise RuleBroken(f"a card of another pod of its group: {words}")
        # The last free ids are taken without a preference: room that a pod by hand took may leave unequal parts.
        is_all = node.by_hand and sum(held.values()) == request.total_units
        equal = held if is_all else dict.fromkeys(held, request.cards.units)
        if not request.cards.whole and not held == recorded == equal:
            raise RuleBroken(f"wrong units: {words}, recorded {assignment}")
        if not request.cards.whole and any(
            node.visible[uid, each.name] != ",".join(map(str, sorted(held)))
            for each in (*pod.spec.init_containers, *pod.spec.containers)
        ):
            raise RuleBroken(f"a container sees {node.visible}: {words}")
        used.update({i: node.cards[i].units for i in held} if request.cards.whole else held)
        node.counts["pods"] += 1
    for index, units in used.items():
        if units > node.cards[index].units:
            raise RuleBroken(f"card {index} has {units} of {node.cards[index].units}")


def play_seed(seed: int, *, gates: bool = True) -> tuple[int, str, Counter[str]]:
    """Play the bursts of one seed; returns it, the rule that was broken or "", and what happened."""
    node = BurstNode(seed, gates=gates)
    node.counts["by hand"] = bool(node.by_hand)
    for _ in range(BURSTS_PER_NODE):
        try:
            play(node)
        except RuleBroken as broken:
            return seed, str(broken), node.counts
        node.counts["bursts"] += 1
    return seed, "", node.counts


def main(arguments: list[str] | None = None) -> int:
    """Play as many bursts as the command line says; returns 1 if a rule was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="bursts in all")
    parser.add_argument("--first", type=int, default=0, help="the first seed; each has 20 bursts")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.count // BURSTS_PER_NODE)
    total, broken = Counter[str](), 0
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        outcomes = pool.imap_unordered(play_seed, seeds, chunksize=50)
        for number, (seed, words, counts) in enumerate(outcomes, 1):
            total.update(counts)
            if number % 5000 == 0:
                print(f"{number * BURSTS_PER_NODE} bursts", flush=True)
            if words:
                broken += 1
                print(f"seed {seed}: {words}", flush=True)
    print(f"{dict(total)}, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
