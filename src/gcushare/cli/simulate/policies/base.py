"""What a policy is: how good a node is for a pod, and which of its cards."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from gcushare.cli.simulate.cluster import SimulatedNode
from gcushare.core.packing.expected_fill import Demand, Room, Spot

NO_FIT = -math.inf
"""The score of a node on which a pod does not fit."""

Scored = tuple[float, Spot | None]
"""A node's score, the greater the better, and the card for a share; None leaves it to the fullest card that fits."""


class Policy(ABC):
    """Chooses a node by scores. Policies that learn get each arrival by ``observe`` before they are asked."""

    by_room = True
    """Whether the score follows from the node's room alone, so that nodes with equal rooms share it."""

    @abstractmethod
    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """How good the node is; asked only if the pod fits, and again only after the node changed."""

    def choose(self, scores: Sequence[float]) -> int:
        """The position of the node to take, if at least one score is not ``NO_FIT``.

        By default the greatest score, the first by name among equals, as the published simulator chooses.
        """
        return list(scores).index(max(scores))

    def observe(self, demand: Demand) -> bool:
        """A pod arrives, and will be asked about; True if every score given so far is out of date."""
        return False


def tightest_spot(room: Room, demand: Demand) -> Spot | None:
    """The card with the least room that a share fits on; None for whole cards, several cards and none."""
    if demand.whole or demand.cards != 1:
        return None
    free = min((each for each in room.shared if each >= demand.units), default=0)
    idle = min((each for each in room.idle if each >= demand.units), default=0)
    if free and not (idle and idle < free):
        return Spot(free, False)
    return Spot(idle, True)


def least_allocated(node: SimulatedNode, demand: Demand) -> float:
    """The mean share of the node's CPU and memory that would be left, as NodeResourcesFit scores by default."""
    cpu = (node.cpu_milli - demand.cpu_milli) / max(1, node.spec.cpu_milli)
    memory = (node.memory_mib - demand.memory_mib) / max(1, node.spec.memory_mib)
    return (cpu + memory) / 2


class BesideKubeScheduler(Policy):
    """Asks a policy about pods with cards alone, as the extender is asked.

    Other pods go where most of CPU and memory is left: NodeResourcesFit's default, LeastAllocated.
    """

    by_room = False

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def observe(self, demand: Demand) -> bool:
        """See ``Policy``; what it is not asked about it does not learn."""
        return bool(demand.cards) and self._policy.observe(demand)

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """The policy's score; for pods without cards the mean share of CPU and memory that would be left."""
        if demand.cards:
            return self._policy.score(node, demand)
        return least_allocated(node, demand), None

    def choose(self, scores: Sequence[float]) -> int:
        return self._policy.choose(scores)
