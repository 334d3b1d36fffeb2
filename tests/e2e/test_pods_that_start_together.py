"""Bursts of pods that ask for the same number and differ in which cards, and how many, they may have.

The kubelet admits them in an order of its own and names none of them. Still each must run on cards that its author
allows, and on as many; or wait, if no such cards have room. ``GCUSHARE_E2E_BURSTS`` says how many bursts are played,
``GCUSHARE_E2E_SEED`` which; a fault is shown with the number that repeats its burst.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random, SystemRandom

import pytest

from gcushare_playground.picture import NotInTime, node_of, phase_of
from tests.e2e.at_rest import find_preference_faults, free_units, has_room_for, look_at, recorded
from tests.e2e.bursts import FOUR_MIXED, UNITS, BurstPod, draw_burst
from tests.e2e.figures import Figures
from tests.e2e.node_side import WHOLE, NodeSide, StartNode

BURSTS = int(os.environ.get("GCUSHARE_E2E_BURSTS", "12"))
SEED = int(os.environ.get("GCUSHARE_E2E_SEED") or SystemRandom().randrange(2**31))
_AT_REST_S = 40.0
_NO_ROOM = ("card", "requested number of devices unavailable", "no healthy devices present")
"""The plugin's word, and the kubelet's own: some ids are free, or none is healthy since all cards are used whole."""
_SHOWN = 40
NODE_OPTIONS = {"whole_cards": True}


@dataclass(slots=True)
class Played:
    """What came of a row of bursts."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def take_in(self, number: int, faults: Sequence[str]) -> None:
        self.counts["bursts"] += 1
        self.counts["bursts with faults"] += bool(faults)
        self.counts["faults"] += len(faults)
        self.faults += [f"burst {number}: {fault}" for fault in faults]


@pytest.mark.timeout(600 + 30 * BURSTS)
@pytest.mark.parametrize("by_hand", [0.0, 0.3], ids=["scheduled", "some-by-hand"])
async def test_pods_that_start_together_keep_their_rules(
    start_node: StartNode, figures: Figures, by_hand: float
) -> None:
    side = await start_node(FOUR_MIXED)
    played = Played()
    started = time.perf_counter()
    for number in range(SEED, SEED + BURSTS):
        burst = draw_burst(Random(number), number, by_hand=by_hand)
        played.take_in(number, await play(side, burst, played.counts))
    seconds = time.perf_counter() - started
    title = f"bursts of pods that start together, {'some by hand' if by_hand else 'scheduled'}, first {SEED}"
    rows = [(what, str(count)) for what, count in played.counts.items()]
    figures.add(title, ("", "count"), *rows, ("seconds a burst", f"{seconds / BURSTS:.2f}"))
    shown = "\n".join(played.faults[:_SHOWN])
    if played.faults:
        pytest.fail(f"GCUSHARE_E2E_SEED={SEED}, {dict(played.counts)}:\n{shown}", pytrace=False)


async def play(side: NodeSide, burst: Sequence[BurstPod], counts: Counter[str]) -> list[str]:
    """Create the pods at once, wait until all are at rest, check them, and delete them."""
    pods = side.scheduling.pods

    def at_rest() -> bool:
        return not any(describe_motion(side, pod, burst) for pod in burst)

    await side.scheduling.create_pods(pod.body() for pod in burst)
    faults: list[str] = []
    try:
        await pods.until(at_rest, "the burst is at rest", deadline_s=_AT_REST_S)
    except NotInTime:
        faults += [f"{pod}: {motion}" for pod in burst if (motion := describe_motion(side, pod, burst))]
    running = await look_at(side, [pod for pod in burst if recorded(pod, side.scheduling.pod(pod.name))])
    faults += [fault for each in running for fault in each.find_faults()]
    faults += find_preference_faults(running, UNITS) if len(running) == len(burst) else []
    free = free_units(running, UNITS)
    faults += [f"card {card} has {units} units left" for card, units in free.items() if units < 0]
    for pod in burst:
        faults += describe_failure(side, pod, is_expected=any(each.by_hand for each in burst))
    counts["pods"] += len(burst)
    counts["pods running"] += len(running)
    await side.scheduling.delete_pods(grace_s=1)
    await side.until_allocatable(side.units)
    await side.until_allocatable(len(UNITS), resource=WHOLE)
    return faults


def describe_motion(side: NodeSide, pod: BurstPod, burst: Sequence[BurstPod]) -> str:
    """Say what a pod still waits for; empty if it runs, failed, or waits because no cards that it may have are free."""
    found = side.scheduling.pods.objects
    body = found.get(f"default/{pod.name}")
    if body is None:
        return "it is not seen yet"
    if phase_of(body) == "Failed" or recorded(pod, body):
        return ""
    if node_of(body):
        return f"it is bound and {phase_of(body)}, {body['status'].get('containerStatuses')}"
    others = (recorded(each, found.get(f"default/{each.name}", {})) for each in burst)
    free = free_units([each for each in others if each is not None], UNITS)
    return f"it waits, and {free} are free" if has_room_for(pod, free, UNITS) else ""


def describe_failure(side: NodeSide, pod: BurstPod, *, is_expected: bool) -> list[str]:
    """Say why a pod failed, unless pods that no scheduler placed may have taken its room and the reason says so.

    The kubelet itself counts the devices of a node, and the plugin those of each card.
    """
    body = side.scheduling.pod(pod.name)
    status = body["status"]
    says_so = any(words in status.get("message", "") for words in _NO_ROOM)
    if phase_of(body) != "Failed" or (is_expected and says_so):
        return []
    return [f"{pod} failed: {status.get('reason')}: {status.get('message')}"]
