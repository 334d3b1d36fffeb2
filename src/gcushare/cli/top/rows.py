"""What cards and pods really use, from the metrics of device plugins, next to what was granted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gcushare.cli.kubectl.summary import NodeSummary, Summary
from gcushare.cluster.metrics_text import parse_figures
from gcushare.core.errors import RemoteContractError
from gcushare.core.nodes import CardState
from gcushare.core.wording import counted

MEMORY = "gcushare_card_memory_used_bytes"
TEMPERATURE = "gcushare_card_temperature_celsius"
POWER = "gcushare_card_power_watts"
UTILIZATION = "gcushare_card_utilization_percent"
UNATTRIBUTED = "gcushare_card_memory_unattributed_bytes"
"""A plugin serves it for each card whose use by pods it reports."""
POD_USED = "gcushare_pod_memory_used_bytes"
POD_BY_DRIVER = "gcushare_pod_memory_used_by_driver"
"""A plugin serves it where the driver counts what a pod uses; elsewhere the plugin adds up its processes."""
POD_GRANTED = "gcushare_pod_memory_granted_bytes"
POD_LIMIT = "gcushare_pod_memory_limit_bytes"
"""A plugin serves it for a pod that may use more than its grant while no other pod needs it."""
POD_OVER = "gcushare_pod_over_use_bytes"
"""A plugin serves it while a pod is over its grant by more than the tolerance, in several polls."""
POD_UTILIZATION = "gcushare_pod_utilization_percent"
_POD_FIGURES = frozenset({POD_USED, POD_BY_DRIVER, POD_GRANTED, POD_LIMIT, POD_OVER, POD_UTILIZATION})
_CARD_FIGURES = frozenset({MEMORY, TEMPERATURE, POWER, UTILIZATION, UNATTRIBUTED})
_MARKER = "gcushare_card_units"
"""Every device plugin serves it; an answer without it comes from another program."""

DRIVER_SHARE = 32
"""A driver holds some memory of every card: an excess below this part of the card counts as the driver's."""

CardKey = tuple[str, int]


@dataclass(slots=True)
class CardReadings:
    """Figures by metric name, of the card and of the pods on it; one that the library does not report is missing."""

    values: dict[str, float] = field(default_factory=dict)
    pods: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def reports_pods(self) -> bool:
        """Whether the plugin reports what each pod uses of this card."""
        return UNATTRIBUTED in self.values


def parse_metrics(text: str, vendor: str) -> dict[CardKey, CardReadings]:
    """Read one plugin's metrics: by node and card; empty for a plugin of another vendor.

    Raises:
        RemoteContractError: this is not what a device plugin serves.
    """
    figures = parse_figures(text)
    if _MARKER not in figures.families:
        raise RemoteContractError(f"the metrics have no {_MARKER}: this is no device plugin")
    found: dict[CardKey, CardReadings] = {}
    for sample in figures.samples:
        labels = sample.labels
        is_ours = sample.name in _CARD_FIGURES | _POD_FIGURES and labels.get("vendor") == vendor
        if not is_ours or not math.isfinite(sample.value):
            continue
        try:
            readings = found.setdefault((labels["node"], int(labels["card"])), CardReadings())
            values = readings.values
            if sample.name in _POD_FIGURES:
                values = readings.pods.setdefault(f"{labels['pod_namespace']}/{labels['pod_name']}", {})
        except (ValueError, KeyError) as error:
            raise RemoteContractError(f"the metrics cannot be read: {type(error).__name__}: {error}") from error
        values[sample.name] = sample.value
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUseRow:
    """One card: bytes granted, kept back and in use; None if that is unknown.

    ``burst_bytes``: how much more than their grants its pods may use while no other pod needs it.
    """

    node: NodeSummary
    state: CardState
    granted_bytes: int | None
    reserved_bytes: int
    readings: Mapping[str, float]
    pods: tuple[str, ...]
    burst_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.state.card.memory_bytes if self.state.card is not None else 0

    @property
    def used_bytes(self) -> int | None:
        return self._bytes(MEMORY)

    @property
    def unattributed_bytes(self) -> int | None:
        """In use by processes that belong to no pod."""
        return self._bytes(UNATTRIBUTED)

    def _bytes(self, name: str) -> int | None:
        value = self.readings.get(name)
        return None if value is None else int(value)

    @property
    def is_over(self) -> bool:
        """Whether more is in use than was granted, beyond the driver's own memory."""
        return self.excess_bytes > max(0, self.total_bytes // DRIVER_SHARE - self.reserved_bytes) + self.burst_bytes

    @property
    def excess_bytes(self) -> int:
        """Bytes in use beyond what was granted and kept back; 0 if that is unknown."""
        if self.used_bytes is None or self.granted_bytes is None:
            return 0
        return max(0, self.used_bytes - self.granted_bytes - self.reserved_bytes)


def use_rows(summary: Summary, readings: Mapping[CardKey, CardReadings]) -> list[CardUseRow]:
    """Set every card's grants next to its readings."""
    return [_row(summary, node, state, readings) for node in summary.nodes for state in node.state.cards.values()]


def _row(summary: Summary, node: NodeSummary, state: CardState, readings: Mapping[CardKey, CardReadings]) -> CardUseRow:
    unit = node.state.unit
    reserved = state.card.reserved_units if state.card is not None else 0
    found = readings.get((node.name, state.index))
    pods = (a for a in summary.shown_pods(node) if any(grant.index == state.index for grant in a.grants))
    limited = [a for a in node.state.assignments.values() if a.limit and state.index in {g.index for g in a.grants}]
    burst = sum(max(0, a.limit - a.units) // len(a.grants) for a in limited)
    return CardUseRow(
        node=node,
        state=state,
        granted_bytes=unit.bytes_of(state.held) if unit is not None else None,
        reserved_bytes=unit.bytes_of(reserved) if unit is not None else 0,
        readings=found.values if found is not None else {},
        pods=tuple(str(each.pod) for each in pods),
        burst_bytes=unit.bytes_of(burst) if unit is not None else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUseRow:
    """One pod on one card, in bytes; ``granted_bytes`` is 0 for a pod that uses a card without holding it.

    ``limit_bytes``: what it may use while no other pod needs it; 0 if only its grant. ``utilization_percent`` is of the
    chip's time; None if the library does not sample processes.
    """

    node: str
    index: int
    pod: str
    granted_bytes: int
    used_bytes: int
    limit_bytes: int = 0
    utilization_percent: float | None = None
    is_reported: bool = False
    """Whether its plugin reports over-use: beyond the tolerance, in several polls."""
    source: str = "processes"
    """What counts the used bytes: the ``driver``, or the plugin from the ``processes``."""

    @property
    def is_over(self) -> bool:
        """Whether it uses more than it may: the driver's own memory belongs to no process."""
        return self.used_bytes > max(self.granted_bytes, self.limit_bytes) or self.is_reported

    @property
    def excess_bytes(self) -> int:
        return max(0, self.used_bytes - self.granted_bytes)


def pod_use_rows(summary: Summary, readings: Mapping[CardKey, CardReadings]) -> list[PodUseRow]:
    """The pods on each card whose plugin reports them: as nodes and cards are ordered, then by name."""
    return [
        PodUseRow(
            node=node.name,
            index=index,
            pod=pod,
            granted_bytes=int(figures.get(POD_GRANTED, 0)),
            used_bytes=int(figures.get(POD_USED, 0)),
            limit_bytes=int(figures.get(POD_LIMIT, 0)),
            utilization_percent=figures.get(POD_UTILIZATION),
            is_reported=POD_OVER in figures,
            source="driver" if POD_BY_DRIVER in figures else "processes",
        )
        for node in summary.nodes
        for index in node.state.cards
        for pod, figures in sorted((readings.get((node.name, index)) or CardReadings()).pods.items())
    ]


def pod_use_hint(summary: Summary, readings: Mapping[CardKey, CardReadings]) -> str:
    """What to do if plugins do not report what pods use; empty if all do, or if none could be asked."""
    asked = {node.name for node in summary.nodes} & {node for node, _ in readings}
    telling = {node for (node, _), found in readings.items() if found.reports_pods}
    silent = len(asked - telling)
    if not silent:
        return ""
    where = f" on {silent} of {counted(len(asked), 'node')}" if asked & telling else ""
    return (
        f"what each pod uses is not reported{where}: start the device plugin with --pod-use (podUse: true in its chart)"
    )
