"""What pods use of each card beside what each may use of it, where the node's plugin tells whose memory it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gcushare.cli.inspect.summary import Summary
from gcushare.cli.top.card_use import POD_GRANTED, POD_USED, CardKey, CardReadings


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUseRow:
    """One pod on one card, in bytes; ``granted_bytes`` is 0 for a pod that uses a card without holding it."""

    node: str
    index: int
    pod: str
    granted_bytes: int
    used_bytes: int

    @property
    def is_over(self) -> bool:
        """Whether it uses more than was granted: what a driver takes for itself belongs to no process."""
        return self.excess_bytes > 0

    @property
    def excess_bytes(self) -> int:
        return max(0, self.used_bytes - self.granted_bytes)


def pod_use_rows(summary: Summary, readings: Mapping[CardKey, CardReadings]) -> list[PodUseRow]:
    """The pods on each card of which a plugin tells: as nodes and cards are ordered, then by name."""
    return [
        PodUseRow(
            node=node.name,
            index=index,
            pod=pod,
            granted_bytes=int(figures.get(POD_GRANTED, 0)),
            used_bytes=int(figures.get(POD_USED, 0)),
        )
        for node in summary.nodes
        for index in node.state.cards
        for pod, figures in sorted(_readings(readings, node.name, index).pods.items())
    ]


def how_to_tell(summary: Summary, readings: Mapping[CardKey, CardReadings]) -> str:
    """What to do where plugins do not tell what pods use; empty where all do, or where none could be asked."""
    asked = {node.name for node in summary.nodes} & {node for node, _ in readings}
    telling = {node for (node, _), found in readings.items() if found.tells_pods}
    silent = len(asked - telling)
    if not silent:
        return ""
    where = f" on {silent} of {len(asked)} nodes" if asked & telling else ""
    return (
        f"what each pod uses is not told{where}: --pod-use of the device plugin tells it (podUse: true in its chart), "
        "by the host's process ids"
    )


def _readings(readings: Mapping[CardKey, CardReadings], node: str, index: int) -> CardReadings:
    return readings.get((node, index)) or CardReadings()
