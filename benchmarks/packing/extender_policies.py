"""The extender's policies as a simulation asks them: how good a node is for a pod, and which of its cards."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.packing.cluster import SimulatedNode, request_of
from benchmarks.packing.workload import units_of
from gcushare.core import placement
from gcushare.core.packing.expected_fill import PARTS, SEQUENCES, Demand, ExpectedFill, Spot
from gcushare.core.packing.learned_fill import score_loss

NO_FIT = -math.inf
"""The score of a node on which a pod does not fit."""

Scored = tuple[float, Spot | None]
"""A node's score, the greater the better, and the card for a share; None leaves it to the fullest card that fits."""


class NodeChooser(ABC):
    """Chooses a node by scores."""

    @abstractmethod
    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """How good the node is; asked only if the pod fits, and again only after the node changed."""

    def choose(self, scores: Sequence[float]) -> int:
        """The position of the node to take, if at least one score is not ``NO_FIT``.

        By default the greatest score, the first by name among equals, as the published simulator chooses.
        """
        return list(scores).index(max(scores))


class LeastLoss(NodeChooser):
    """``expected-fill``: a pod goes where the node loses least of what the ``typical`` pods could still use."""

    def __init__(self, typical: Mapping[Demand, float]) -> None:
        self._fill = ExpectedFill(typical)

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """The extender's score, or the negated loss of a pod without cards."""
        loss, spot = self._fill.best_spot(node.room, demand)
        if not demand.cards:
            return -loss, spot
        own = PARTS * SEQUENCES * units_of(demand, node.spec.card_units)
        return score_loss(loss, own, node.state, request_of(demand)), spot


class OfTheExtender(NodeChooser):
    """A node policy of the extender with its card policy, which see cards alone."""

    def __init__(self, policy: placement.Policy) -> None:
        self._policy = policy

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """The extender is not asked about pods without cards; they go to the first node that fits."""
        if not demand.cards:
            return 0.0, None
        request, spot = request_of(demand), None
        if (
            demand.cards == 1
            and not demand.whole
            and (chosen := placement.choose_cards(node.state, request, self._policy.rank_card))
        ):
            spot = Spot(chosen[0].grantable, chosen[0].is_empty)
        return self._policy.score_node(node.state, request), spot


class BesideKubeScheduler(NodeChooser):
    """Asks a policy about pods with cards alone, as the extender is asked.

    Other pods go where most of CPU and memory is left: NodeResourcesFit's default, LeastAllocated.
    """

    def __init__(self, policy: NodeChooser) -> None:
        self._policy = policy

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """The policy's score; for pods without cards the mean share of CPU and memory that would be left."""
        if demand.cards:
            return self._policy.score(node, demand)
        return least_allocated(node, demand), None

    def choose(self, scores: Sequence[float]) -> int:
        return self._policy.choose(scores)


def least_allocated(node: SimulatedNode, demand: Demand) -> float:
    """The mean share of the node's CPU and memory that would be left, as NodeResourcesFit scores by default."""
    cpu = (node.cpu_milli - demand.cpu_milli) / max(1, node.spec.cpu_milli)
    memory = (node.memory_mib - demand.memory_mib) / max(1, node.spec.memory_mib)
    return (cpu + memory) / 2


def of_the_extender(name: str, typical: Sequence[Demand]) -> NodeChooser:
    """The extender's policy of this name, for pods like the ``typical`` ones."""
    if name == placement.EXPECTED_FILL:
        return LeastLoss(Counter(typical))
    return OfTheExtender(placement.POLICIES[name])
