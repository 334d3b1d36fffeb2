"""Pods that end: how long requests wait, and what is left in one piece, at a steady load.

Time counts in mean lifetimes. Pods live exponentially long, so a running pod's remaining time is distributed as a new
one's, and a cluster that is filled at the start is in its steady state from then on. Arrivals are a Poisson process.
A pod that does not fit waits. When a pod ends, all waiting pods are tried in the order of arrival.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from benchmarks.packing.cluster import SimulatedCluster
from benchmarks.packing.policies import Given, make_policy
from benchmarks.packing.runs import Placer
from benchmarks.packing.workload import EmptyNode, units_of
from gcushare.core.packing.expected_fill import Demand


@dataclass(frozen=True, slots=True)
class Churn:
    """Load as a share of all card units, duration in mean lifetimes, and from how many whole cards a pod is large."""

    load: float
    lifetimes: float
    large: int


@dataclass(frozen=True, slots=True)
class ChurnRun:
    """The result. Waits are in mean lifetimes; a pod that never started counts with its time until the end.

    ``largest_piece``: idle cards of the node that has most of them, mean over time.
    """

    policy: str
    seed: int
    arrivals: int
    allocated: float
    waited: float
    large_arrivals: int
    large_waited: float
    large_refused_at_first: float
    largest_piece: float


@dataclass(slots=True)
class _Waiting:
    uid: str
    demand: Demand
    since: float
    lifetime: float


class _World:
    """One run's state: the cluster, the pods that end by time, those that wait, and sums over time and over pods."""

    def __init__(self, cluster: SimulatedCluster, placer: Placer, large: int) -> None:
        self.cluster = cluster
        self.placer = placer
        self.large = large
        self.waits: list[float] = []
        self.large_waits: list[float] = []
        self.large_delayed = 0
        self.allocated = 0.0
        self.piece = 0.0
        self._ends: list[tuple[float, str]] = []
        self._queue: list[_Waiting] = []
        self._used = 0
        self._now = 0.0

    def arrive(self, pod: _Waiting, *, is_counted: bool) -> None:
        """Start a new pod, or let it wait."""
        if self._start(pod):
            if is_counted:
                self._count(pod, 0.0)
        elif is_counted:
            self._queue.append(pod)
            self.large_delayed += self._is_large(pod.demand)

    def advance(self, until: float) -> None:
        """Let time pass: pods end, and waiting pods are tried again."""
        while self._ends and self._ends[0][0] <= until:
            time, uid = heapq.heappop(self._ends)
            self._pass_to(time)
            self._used -= units_of(self.cluster.end(uid), self.cluster.card_units)
            self._retry()
        self._pass_to(until)

    def finish(self) -> None:
        """Count the pods that still wait."""
        for pod in self._queue:
            self._count(pod, self._now - pod.since)

    def _start(self, pod: _Waiting) -> bool:
        if self.placer.place(pod.uid, pod.demand) is None:
            return False
        self._used += units_of(pod.demand, self.cluster.card_units)
        heapq.heappush(self._ends, (self._now + pod.lifetime, pod.uid))
        return True

    def _retry(self) -> None:
        refused: set[Demand] = set()
        still = []
        for pod in self._queue:
            if pod.demand not in refused and self._start(pod):
                self._count(pod, self._now - pod.since)
            else:
                refused.add(pod.demand)
                still.append(pod)
        self._queue = still

    def _pass_to(self, time: float) -> None:
        span, self._now = time - self._now, time
        self.allocated += span * self._used / self.cluster.total_units
        self.piece += span * max(node.state.empty_cards for node in self.cluster.nodes)

    def _count(self, pod: _Waiting, waited: float) -> None:
        self.waits.append(waited)
        if self._is_large(pod.demand):
            self.large_waits.append(waited)

    def _is_large(self, demand: Demand) -> bool:
        return demand.whole and demand.cards >= self.large


def run_churn(
    policy: str,
    nodes: Sequence[EmptyNode],
    trace: Sequence[Demand],
    churn: Churn,
    seed: int,
    *,
    cards_alone: bool = False,
) -> ChurnRun:
    """Fill an empty cluster to the load, then let pods come and go; only what arrives after the filling is counted."""
    draw = random.Random(seed)
    cluster = SimulatedCluster(nodes)
    placer = Placer(cluster, make_policy(policy, Given(cluster, trace, seed, cards_alone)))
    world = _World(cluster, placer, churn.large)
    card_units = cluster.card_units
    target = churn.load * world.cluster.total_units
    asked = 0
    number = 0
    while asked < target:
        pod = _Waiting(str(number), draw.choice(trace), 0.0, draw.expovariate(1.0))
        asked += units_of(pod.demand, card_units)
        number += 1
        world.arrive(pod, is_counted=False)
    per_lifetime = target / mean(units_of(pod, card_units) for pod in trace)
    time, first = 0.0, number
    while (time := time + draw.expovariate(per_lifetime)) < churn.lifetimes:
        world.advance(time)
        world.arrive(_Waiting(str(number), draw.choice(trace), time, draw.expovariate(1.0)), is_counted=True)
        number += 1
    world.advance(churn.lifetimes)
    world.finish()
    return ChurnRun(
        policy,
        seed,
        number - first,
        world.allocated / churn.lifetimes,
        mean(world.waits or [0.0]),
        len(world.large_waits),
        mean(world.large_waits or [0.0]),
        world.large_delayed / max(1, len(world.large_waits)),
        world.piece / churn.lifetimes,
    )
