"""Reads nodes and pods from CSV, and builds arrivals from them with a seed.

The columns are those of Alibaba's cluster-trace-gpu-v2023; other columns are ignored.

Nodes: ``sn,cpu_milli,memory_mib,gpu,model``. Pods: ``name,cpu_milli,memory_mib,num_gpu,gpu_milli`` and, optionally,
``gpu_spec`` (accepted models, separated by ``|``). ``gpu_milli`` is a share of one card in thousandths; 1000 is the
whole card.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gcushare.core.packing.expected_fill import Demand

CARD_UNITS = 1000
"""Units of one card: the trace counts thousandths."""


@dataclass(frozen=True, slots=True)
class EmptyNode:
    """A node before any pod is on it: ``cards`` cards of ``card_units`` each."""

    name: str
    cpu_milli: int
    memory_mib: int
    cards: int
    model: str = ""
    card_units: int = CARD_UNITS

    @property
    def units(self) -> int:
        return self.cards * self.card_units


def read_nodes(path: Path) -> list[EmptyNode]:
    """Read the nodes that have cards, in order of name."""
    nodes = [
        EmptyNode(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(path)
    ]
    return sorted((node for node in nodes if node.cards), key=lambda node: node.name)


def read_pods(path: Path) -> list[Demand]:
    """Read what each pod asks for, in the order of the file."""
    return [_demand(row) for row in _rows(path)]


def _demand(row: Mapping[str, str]) -> Demand:
    cards, units = int(row["num_gpu"]), int(row["gpu_milli"])
    whole = units == CARD_UNITS
    return Demand(
        cards=cards,
        units=0 if whole or not cards else units,
        whole=whole and cards > 0,
        cpu_milli=int(row["cpu_milli"]),
        memory_mib=int(row["memory_mib"]),
        models=tuple(sorted(filter(None, row.get("gpu_spec", "").split("|")))) if cards else (),
    )


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def units_of(demand: Demand, card_units: int) -> int:
    """What a pod holds in all; a whole card counts with all its units."""
    return demand.cards * (card_units if demand.whole else demand.units)


def build_workload(trace: Sequence[Demand], limit_units: int, card_units: int, seed: int) -> list[Demand]:
    """Build arrivals whose demand is as near to ``limit_units`` as possible without exceeding it.

    The published way ("tuning" to 130 %): the trace's pods in random order, then pods sampled from it with replacement
    until the next one would exceed the limit. If the trace requests more, random pods are removed instead.
    """
    draw = random.Random(seed)
    pods = list(trace)
    draw.shuffle(pods)
    demanded = sum(units_of(pod, card_units) for pod in pods)
    while demanded > limit_units:
        demanded -= units_of(pods.pop(draw.randrange(len(pods))), card_units)
    while True:
        pod = trace[draw.randrange(len(trace))]
        demanded += units_of(pod, card_units)
        if demanded > limit_units:
            return pods
        pods.append(pod)
