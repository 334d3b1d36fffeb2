"""The pods of one run: a trace put into an order and inflated or cut to a share of the cluster's cards, by a seed."""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence

from gcushare.core.packing.expected_fill import Demand


class Order(enum.Enum):
    """In which order the trace's own pods arrive; what is sampled beyond them comes last either way."""

    SHUFFLED = "shuffled"
    TRACE = "trace"


def units_of(demand: Demand, card_units: int) -> int:
    """What a pod holds in all; a whole card counts with all its units."""
    return demand.cards * (card_units if demand.whole else demand.units)


def arrange(trace: Sequence[Demand], seed: int, order: Order) -> list[Demand]:
    """Put the trace's pods into an order, each once."""
    return _arrange(trace, random.Random(seed), order)


def build_workload(
    trace: Sequence[Demand], limit_units: int, card_units: int, seed: int, order: Order = Order.SHUFFLED
) -> list[Demand]:
    """Build the arrivals whose demand is as near to ``limit_units`` as it gets without exceeding it.

    The published way ("tuning" to 130 %): the trace's pods in random order, then pods sampled from it with replacement
    until the next one would exceed the limit. A trace that asks for more loses random pods instead.
    """
    draw = random.Random(seed)
    pods = _arrange(trace, draw, order)
    demanded = sum(units_of(pod, card_units) for pod in pods)
    while demanded > limit_units:
        demanded -= units_of(pods.pop(draw.randrange(len(pods))), card_units)
    while True:
        pod = trace[draw.randrange(len(trace))]
        demanded += units_of(pod, card_units)
        if demanded > limit_units:
            return pods
        pods.append(pod)


def _arrange(trace: Sequence[Demand], draw: random.Random, order: Order) -> list[Demand]:
    pods = list(trace)
    if order is Order.SHUFFLED:
        draw.shuffle(pods)
    return pods
