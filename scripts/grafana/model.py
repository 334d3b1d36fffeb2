"""Panels, rows and dashboards as values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

GRID_WIDTH = 24
"""Columns of Grafana's grid."""


class Kind(enum.Enum):
    """How a panel shows its figures; the values are Grafana's names of its own panel types."""

    STAT = "stat"
    GAUGE = "gauge"
    BARS = "bargauge"
    LINES = "timeseries"
    STACK = "timeseries stacked"
    TABLE = "table"

    @property
    def is_over_time(self) -> bool:
        return self in (Kind.LINES, Kind.STACK)


class Unit(enum.StrEnum):
    """What a figure counts; the values are Grafana's."""

    COUNT = "none"
    BYTES = "bytes"
    SHARE = "percentunit"
    PERCENT = "percent"
    SECONDS = "s"
    PER_SECOND = "ops"
    GIB_HOURS = "suffix: GiB·h"
    CELSIUS = "celsius"
    WATTS = "watt"


class Span(enum.Enum):
    """A panel's own time, whatever the dashboard's is: Grafana's ``timeFrom`` and ``timeShift``."""

    THIS_MONTH = ("now/M", None)
    LAST_MONTH = ("now/M", "1M/M")


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression; ``legend`` names its series, in tables its column."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """From ``at`` on a figure is shown in ``color``."""

    at: float | None
    color: str


GREEN, BLUE, YELLOW, ORANGE, RED = "green", "blue", "yellow", "orange", "red"
PLAIN = (Step(None, BLUE),)
NONE_IS_GOOD = (Step(None, GREEN), Step(1, RED))
NONE_IS_FINE = (Step(None, GREEN), Step(1, ORANGE))
EXACTLY_ONE = (Step(None, RED), Step(1, GREEN), Step(2, RED))
SOME_IS_GOOD = (Step(None, RED), Step(1, GREEN))
FILLING = (Step(None, GREEN), Step(0.8, YELLOW), Step(0.95, ORANGE))
LOSING = (Step(None, GREEN), Step(0.25, YELLOW), Step(0.5, ORANGE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How a table shows one column, by the legend of its query; ``link`` is opened by a click."""

    name: str
    unit: Unit = Unit.COUNT
    steps: tuple[Step, ...] = ()
    link: str = ""
    maximum: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel. ``about`` is what the little "i" shows; ``labels`` are a table's columns before its queries'."""

    kind: Kind
    title: str
    about: str
    queries: tuple[Query, ...]
    width: int
    height: int = 8
    unit: Unit = Unit.COUNT
    steps: tuple[Step, ...] = PLAIN
    maximum: float | None = None
    labels: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A heading with its panels, which flow from left to right and on into the next line."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice at the top; ``query`` finds the values to choose from."""

    name: str
    label: str
    query: str
    takes_many: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One dashboard; ``uid`` is part of its address and must never change."""

    uid: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    other: tuple[str, str]
    """The dashboard that a link at the top leads to: its title and its uid."""
