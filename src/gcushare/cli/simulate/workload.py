"""Reads nodes and pods from CSV, and builds arrivals from them with a seed.

The columns are those of Alibaba's cluster-trace-gpu-v2023; other columns are ignored.

Nodes: ``sn,cpu_milli,memory_mib,gpu,model``. Pods: ``name,cpu_milli,memory_mib,num_gpu,gpu_milli`` and, optionally,
``gpu_spec`` (accepted models, separated by ``|``). ``gpu_milli`` is a share of one card in thousandths; 1000 is the
whole card.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gcushare.core.errors import ConfigError
from gcushare.core.packing.expected_fill import Demand

CARD_UNITS = 1000
"""Units of one card: the trace counts thousandths."""

_MOST_DIGITS = 15
"""Of a number: more MiB than any cluster has."""

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


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
    """Read the nodes that have cards, in order of name.

    Raises:
        ConfigError: the file cannot be read, lacks a column, or a line lacks a name or a number.
    """
    nodes = [
        EmptyNode(
            _name(path, line, row),
            _count(path, line, row, "cpu_milli"),
            _count(path, line, row, "memory_mib"),
            _count(path, line, row, "gpu"),
            row.get("model") or "",
        )
        for line, row in _rows(path, NODE_COLUMNS)
    ]
    found = sorted((node for node in nodes if node.cards), key=lambda node: node.name)
    names = {node.name for node in found}
    if len(names) != len(found):
        raise ConfigError(f"nodes {str(path)!r}: {len(found) - len(names)} names in column 'sn' are there twice")
    if not found:
        raise ConfigError(f"nodes {str(path)!r} has no node with cards; column 'gpu' counts them")
    return found


def read_pods(path: Path) -> list[Demand]:
    """Read what each pod asks for, in the order of the file.

    Raises:
        ConfigError: as ``read_nodes``.
    """
    pods = [_demand(path, line, row) for line, row in _rows(path, POD_COLUMNS)]
    if not any(pod.cards for pod in pods):
        raise ConfigError(f"pods {str(path)!r} has no pod that asks for a card; column 'num_gpu' counts them")
    return pods


def _demand(path: Path, line: int, row: Mapping[str, str]) -> Demand:
    cards, units = _count(path, line, row, "num_gpu"), _count(path, line, row, "gpu_milli")
    if cards and not 0 < units <= CARD_UNITS:
        raise ConfigError(f"pods {str(path)!r} line {line}: gpu_milli {units!r} must be from 1 to {CARD_UNITS}")
    models = (row.get("gpu_spec") or "").strip()
    whole = units == CARD_UNITS
    return Demand(
        cards=cards,
        units=0 if whole or not cards else units,
        whole=whole and cards > 0,
        cpu_milli=_count(path, line, row, "cpu_milli"),
        memory_mib=_count(path, line, row, "memory_mib"),
        models=tuple(sorted(filter(None, models.split("|")))) if cards else (),
    )


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise ConfigError(
                    f"{str(path)!r} lacks the columns {', '.join(missing)}; its first line is "
                    f"{','.join(reader.fieldnames or ())!r}, needed are {','.join(columns)}"
                )
            yield from enumerate(reader, start=2)
    except (OSError, UnicodeDecodeError, csv.Error) as failure:
        raise ConfigError(f"{str(path)!r} cannot be read: {failure}; name a CSV file") from failure


def _name(path: Path, line: int, row: Mapping[str, str]) -> str:
    """A node's name; a line that is too short has none."""
    name = row["sn"] or ""
    if not name.strip():
        raise ConfigError(f"{str(path)!r} line {line}: sn {name!r} is empty; every node needs a name of its own")
    return name


def _count(path: Path, line: int, row: Mapping[str, str], column: str) -> int:
    text = (row[column] or "").strip()
    if not (text.isdecimal() and len(text) <= _MOST_DIGITS):
        accepted = f"a whole number from 0 of at most {_MOST_DIGITS} digits"
        raise ConfigError(f"{str(path)!r} line {line}: {column} {text[:40]!r} is not {accepted}")
    return int(text)


def units_of(demand: Demand, card_units: int) -> int:
    """What a pod holds in all; a whole card counts with all its units."""
    return demand.cards * (card_units if demand.whole else demand.units)


def arrange(trace: Sequence[Demand], seed: int) -> list[Demand]:
    """Put the trace's pods into a random order, each once."""
    pods = list(trace)
    random.Random(seed).shuffle(pods)
    return pods


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
