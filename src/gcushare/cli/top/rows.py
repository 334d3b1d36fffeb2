"""What cards and pods really use, from the statuses of device plugins, next to what was granted."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gcushare.cli.kubectl.summary import NodeSummary, Summary
from gcushare.cluster.node_view import CardPods, NodeView, granted_bytes
from gcushare.core.card_state import CardState
from gcushare.core.wording import counted
from gcushare.wire.documents.plugin_status import CardStatus, UseStatus

DRIVER_SHARE = 32
"""A driver holds some memory of every card: an excess below this part of the card counts as the driver's."""

Views = Mapping[str, NodeView]
"""What the plugins report, by node."""


class CardUseRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One card, as the document has it: bytes granted, kept back and in use; None if that is unknown.

    ``is_over``: whether more is in use than was granted, beyond the driver's own memory. ``unattributed_bytes`` are in
    use by processes that belong to no pod.
    """

    node: str
    index: int
    total_bytes: int
    granted_bytes: int | None
    reserved_bytes: int
    used_bytes: int | None
    utilization_percent: float | None
    temperature_celsius: float | None
    power_watts: float | None
    is_over: bool = msgspec.field(name="over")
    pods: tuple[str, ...]
    unattributed_bytes: int | None

    @property
    def excess_bytes(self) -> int:
        """Bytes in use beyond what was granted and kept back; 0 if that is unknown."""
        return excess_of(self.used_bytes, self.granted_bytes, self.reserved_bytes)


def excess_of(used: int | None, granted: int | None, reserved: int) -> int:
    return 0 if used is None or granted is None else max(0, used - granted - reserved)


def use_rows(summary: Summary, views: Views) -> list[CardUseRow]:
    """Set every card's grants next to its use."""
    return [_row(summary, node, state, views) for node in summary.nodes for state in node.state.cards.values()]


def _row(summary: Summary, node: NodeSummary, state: CardState, views: Views) -> CardUseRow:
    def bytes_of(units: int) -> int:
        return node.state.unit.bytes_of(units) if node.state.unit is not None else 0

    card, _ = _find_card(views, node.name, state.index)
    use = (card.use if card is not None else None) or UseStatus()
    pods = (a for a in summary.shown_pods(node) if any(grant.index == state.index for grant in a.grants))
    limited = [a for a in node.state.assignments.values() if a.limit and state.index in {g.index for g in a.grants}]
    # How much more than their grants its pods may use while no other pod needs it.
    burst = bytes_of(sum(max(0, a.limit - a.units) // len(a.grants) for a in limited))
    total = state.card.memory_bytes if state.card is not None else 0
    granted = bytes_of(state.held) if node.state.unit is not None else None
    reserved = bytes_of(state.card.reserved_units if state.card is not None else 0)
    excess = excess_of(use.memory_used_bytes, granted, reserved)
    return CardUseRow(
        node=node.name,
        index=state.index,
        total_bytes=total,
        granted_bytes=granted,
        reserved_bytes=reserved,
        used_bytes=use.memory_used_bytes,
        utilization_percent=use.utilization_percent,
        temperature_celsius=use.temperature_celsius,
        power_watts=use.power_watts,
        # A card that is granted in full has no more to give: what its last unit leaves of it is no other pod's.
        is_over=state.held < state.total and excess > max(0, total // DRIVER_SHARE - reserved) + burst,
        pods=tuple(str(each.pod) for each in pods),
        unattributed_bytes=card.unattributed_bytes if card is not None else None,
    )


def _find_card(views: Views, node: str, index: int) -> tuple[CardStatus | None, CardPods | None]:
    """Find what a plugin reports of a card and of the pods on it; None for a card that it does not report."""
    view = views.get(node)
    cards = zip(view.status.cards, view.cards, strict=True) if view is not None else ()
    return next(((card, pods) for card, pods in cards if card.index == index), (None, None))


class PodUseRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod on one card, in bytes, as the document has it.

    ``granted_bytes`` is 0 for a pod that uses a card without holding it, ``limit_bytes`` what it may use while no other
    pod needs it, 0 if only its grant. ``used_source``: what counts the used bytes, the ``driver``, or the plugin from
    the ``processes``. ``utilization_percent`` is of the chip's time; None if the library does not sample processes.
    ``is_over``: whether it uses more than it may; ``is_reported``: its plugin reports that, beyond the tolerance and in
    several polls. ``idle_since``: since when it has not used its cards; "" if it is not idle. ``highest_bytes``: the
    most that it used since ``seen_since``, when its plugin saw it first; None if that is not reported.
    ``shared_with``: other pods of its claims, which together are granted what stands here.
    """

    node: str
    index: int
    pod: str
    granted_bytes: int
    limit_bytes: int
    used_bytes: int
    used_source: str
    utilization_percent: float | None
    is_over: bool = msgspec.field(name="over")
    is_reported: bool = msgspec.field(name="reported")
    idle_since: str
    highest_bytes: int | None
    seen_since: str
    shared_with: tuple[str, ...]

    @property
    def excess_bytes(self) -> int:
        return max(0, self.used_bytes - self.granted_bytes)


def pod_use_rows(summary: Summary, views: Views) -> list[PodUseRow]:
    """The pods on each card whose plugin reports them: as nodes and cards are ordered, then by name."""
    rows, on_node = [], dict[str, dict[str, str]]()
    for uid, facts in summary.snapshot.pods.items():
        on_node.setdefault(facts.node, {})[str(facts.ref)] = uid
    for node in summary.nodes:
        # A plugin tells uids to its own machine alone.
        uids = {str(held.pod): uid for uid, held in node.state.assignments.items()}
        uids |= on_node.get(node.name, {})
        for index in node.state.cards:
            card, pods = _find_card(views, node.name, index)
            for holder in sorted(pods.holders if pods is not None else (), key=lambda each: each.pod):
                if card is None or holder.used_bytes is None:
                    continue
                uid = holder.uid or uids.get(holder.pod, "")
                held, unit = node.state.assignments.get(uid), node.state.unit
                is_held = held is not None and any(grant.index == index for grant in held.grants)
                limit = held.limit // len(held.grants) if held is not None and is_held else 0
                granted = granted_bytes(holder, card, unit) or 0
                most = unit.bytes_of(limit) if unit is not None else 0
                rows.append(
                    PodUseRow(
                        node=node.name,
                        index=index,
                        pod=holder.pod,
                        granted_bytes=granted,
                        limit_bytes=most,
                        used_bytes=holder.used_bytes,
                        used_source="driver" if holder.used_by_driver else "processes",
                        utilization_percent=holder.utilization_percent,
                        # The driver's own memory belongs to no process.
                        is_over=holder.used_bytes > max(granted, most) or bool(holder.over_since),
                        is_reported=bool(holder.over_since),
                        idle_since=holder.idle_since,
                        highest_bytes=holder.highest_bytes,
                        seen_since=holder.seen_since,
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
