"""What a policy is: how good a node is for a pod, and which of its cards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from gcushare.cli.simulate.cluster import SimulatedNode
from gcushare.core.packing.expected_fill import Demand, Room, Spot

NO_FIT = -math.inf
"""The score of a node on which a pod does not fit."""

Scored = tuple[float, Spot | None]
"""A node's score, the greater the better, and the card for a share; None leaves it to the fullest card that fits."""


class Policy(Protocol):
    """Chooses a node by scores. Policies that learn see each arrival before they are asked."""

    by_room: bool
    """Whether the score follows from the node's room alone, so that nodes with equal rooms share it."""

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """How good the node is; asked only where the pod fits, and again only after the node changed."""
        ...

    def choose(self, scores: Sequence[float]) -> int:
        """The position of the node to take; at least one score is not ``NO_FIT``."""
        ...

    def observe(self, demand: Demand) -> bool:
        """A pod arrives, and will be asked about; True where every score given so far is out of date."""
        ...


class KnowsEnough:
    """A policy that learns nothing from arrivals."""

    def observe(self, demand: Demand) -> bool:
        return False


class FirstOfTheBest(KnowsEnough):
    """The node with the greatest score; the first by name among equals, as the published simulator chooses."""

    by_room = True

    def choose(self, scores: Sequence[float]) -> int:
        return list(scores).index(max(scores))


def tightest_spot(room: Room, demand: Demand) -> Spot | None:
    """The card with the least room that a share fits on; None for whole cards, several cards and none."""
    if demand.whole or demand.cards != 1:
        return None
    free = min((each for each in room.shared if each >= demand.units), default=0)
    idle = min((each for each in room.idle if each >= demand.units), default=0)
    if free and not (idle and idle < free):
        return Spot(free, False)
    return Spot(idle, True)
