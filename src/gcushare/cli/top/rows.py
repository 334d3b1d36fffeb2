"""What cards and pods really use, from the statuses of device plugins, next to what was granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gcushare.cli.kubectl.summary import NodeSummary, Summary
from gcushare.cluster.card_drawing.node_view import CardPods, NodeView, granted_bytes
from gcushare.core.card_state import CardState
from gcushare.core.wording import counted
from gcushare.wire.documents.plugin_status import CardStatus, UseStatus

DRIVER_SHARE = 32
"""A driver holds some memory of every card: an excess below this part of the card counts as the driver's."""

Views = Mapping[str, NodeView]
"""What the plugins report, by node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUseRow:
    """One card: bytes granted, kept back and in use; None if that is unknown.

    ``burst_bytes``: how much more than their grants its pods may use while no other pod needs it.
    ``unattributed_bytes`` are in use by processes that belong to no pod.
    """

    node: NodeSummary
    state: CardState
    granted_bytes: int | None
    reserved_bytes: int
    use: UseStatus
    unattributed_bytes: int | None
    pods: tuple[str, ...]
    burst_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.state.card.memory_bytes if self.state.card is not None else 0

    @property
    def is_over(self) -> bool:
        """Whether more is in use than was granted, beyond the driver's own memory."""
        return self.excess_bytes > max(0, self.total_bytes // DRIVER_SHARE - self.reserved_bytes) + self.burst_bytes

    @property
    def excess_bytes(self) -> int:
        """Bytes in use beyond what was granted and kept back; 0 if that is unknown."""
        if self.use.memory_used_bytes is None or self.granted_bytes is None:
            return 0
        return max(0, self.use.memory_used_bytes - self.granted_bytes - self.reserved_bytes)


def use_rows(summary: Summary, views: Views) -> list[CardUseRow]:
    """Set every card's grants next to its use."""
    return [_row(summary, node, state, views) for node in summary.nodes for state in node.state.cards.values()]


def _row(summary: Summary, node: NodeSummary, state: CardState, views: Views) -> CardUseRow:
    unit = node.state.unit
    reserved = state.card.reserved_units if state.card is not None else 0
    card, _ = _find_card(views, node.name, state.index)
    pods = (a for a in summary.shown_pods(node) if any(grant.index == state.index for grant in a.grants))
    limited = [a for a in node.state.assignments.values() if a.limit and state.index in {g.index for g in a.grants}]
    burst = sum(max(0, a.limit - a.units) // len(a.grants) for a in limited)
    return CardUseRow(
        node=node,
        state=state,
        granted_bytes=unit.bytes_of(state.held) if unit is not None else None,
        reserved_bytes=unit.bytes_of(reserved) if unit is not None else 0,
        use=(card.use if card is not None else None) or UseStatus(),
        unattributed_bytes=card.unattributed_bytes if card is not None else None,
        pods=tuple(str(each.pod) for each in pods),
        burst_bytes=unit.bytes_of(burst) if unit is not None else 0,
    )


def _find_card(views: Views, node: str, index: int) -> tuple[CardStatus | None, CardPods | None]:
    """Find what a plugin reports of a card and of the pods on it; None for a card that it does not report."""
    view = views.get(node)
    cards = zip(view.status.cards, view.cards, strict=True) if view is not None else ()
    return next(((card, pods) for card, pods in cards if card.index == index), (None, None))


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
    idle_since: str = ""
    """Since when it has not used its cards, as its plugin reports; "" if it is not idle."""
    highest_bytes: int | None = None
    """The most that it used since ``seen_since``, when its plugin saw it first; None if that is not reported."""
    seen_since: str = ""
    shared_with: tuple[str, ...] = ()
    """Other pods of its claims: together they are granted what stands here."""

    @property
    def is_over(self) -> bool:
        """Whether it uses more than it may: the driver's own memory belongs to no process."""
        return self.used_bytes > max(self.granted_bytes, self.limit_bytes) or self.is_reported

    @property
    def excess_bytes(self) -> int:
        return max(0, self.used_bytes - self.granted_bytes)


def pod_use_rows(summary: Summary, views: Views) -> list[PodUseRow]:
    """The pods on each card whose plugin reports them: as nodes and cards are ordered, then by name."""
    rows = []
    for node in summary.nodes:
        # A plugin tells uids to its own machine alone.
        uids = {str(held.pod): uid for uid, held in node.state.assignments.items()}
        uids |= {str(pod.ref): uid for uid, pod in summary.snapshot.pods.items() if pod.node == node.name}
        for index in node.state.cards:
            card, pods = _find_card(views, node.name, index)
            for holder in sorted(pods.holders if pods is not None else (), key=lambda each: each.pod):
                if card is None or holder.used_bytes is None:
                    continue
                uid = holder.uid or uids.get(holder.pod, "")
                held, unit = node.state.assignments.get(uid), node.state.unit
                is_held = held is not None and any(grant.index == index for grant in held.grants)
                limit = held.limit // len(held.grants) if held is not None and is_held else 0
                rows.append(
                    PodUseRow(
                        node=node.name,
                        index=index,
                        pod=holder.pod,
                        granted_bytes=granted_bytes(holder, card, unit) or 0,
                        used_bytes=holder.used_bytes,
                        limit_bytes=unit.bytes_of(limit) if unit is not None else 0,
                        utilization_percent=holder.utilization_percent,
                        is_reported=bool(holder.over_since),
                        idle_since=holder.idle_since,
                        highest_bytes=holder.highest_bytes,
                        seen_since=holder.seen_since,
                        source="driver" if holder.used_by_driver else "processes",
                        shared_with=tuple(map(str, summary.snapshot.claims.pods_sharing_with(uid))),
                    )
                )
    return rows


def pod_use_hint(summary: Summary, views: Views) -> str:
    """What to do if plugins do not report what pods use; empty if all do, or if none could be asked."""
    asked = [views[node.name] for node in summary.nodes if node.name in views]
    silent = sum(view.status.pod_use != "" for view in asked)
    if not silent:
        return ""
    where = f" on {silent} of {counted(len(asked), 'node')}" if silent < len(asked) else ""
    return (
        f"what each pod uses is not reported{where}: start the device plugin with --pod-use (podUse: true in its chart)"
    )
