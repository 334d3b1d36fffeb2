"""Renders the status document as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gcushare.core.cards import Health
from gcushare.core.over_use.tracking import Figures, describe_over_use
from gcushare.core.wording import index_text
from gcushare.wire.documents.plugin_status import CardStatus, OverUseStatus, PluginStatus, PodOnNode

_NOTHING = "-"
_PAGES = (("Cards", "INDEX UUID MODE UNITS HELD PROMISED RESERVED STATE"), ("Pods", "POD UNITS RECORDED HELD STATE"))


def render_status(status: PluginStatus) -> str:
    """Render a node's status: its problems first, then its cards and pods."""
    return "\n".join(_lines(status)) + "\n"


def _lines(status: PluginStatus) -> Iterator[str]:
    yield f"Node {status.node}, vendor {status.vendor}, unit {status.unit or _NOTHING}, version {status.version}"
    age = "never" if status.watch_age_seconds is None else f"{status.watch_age_seconds:g}s ago"
    yield (
        f"Registrations {status.registrations}, corrections {status.corrections}, unconfirmed allocations "
        f"{status.unconfirmed_allocations}, API server heard {age}"
    )
    if status.foreign_containers:
        yield f"Containers with device ids of another plugin: {status.foreign_containers}; see this node's events"
    if status.pod_use:
        yield f"Use per pod is not known: {status.pod_use}"
    if status.over_use is not None:
        yield from _over_use(status.over_use, status.pods)
    yield ""
    if status.problems:
        yield "Problems"
        yield from (f"  {part}: {problem}" for part, problem in sorted(status.problems.items()))
    else:
        yield "No problem"
    rows = ([_card_row(card) for card in status.cards], [_pod_row(pod) for pod in status.pods])
    for (title, heading), found in zip(_PAGES, rows, strict=True):
        if found:
            yield ""
            yield title
            yield from _table([heading.split(), *found])
    yield from (f"  left out: card {card.index} ({card.uuid}): {card.reason}" for card in status.left_out)
    yield from (f"  unreadable: pod {pod.pod}: {pod.reason}" for pod in status.unreadable_pods)


def _over_use(found: OverUseStatus, pods: Sequence[PodOnNode]) -> Iterator[str]:
    rehearsal = " (dry run)" if found.dry_run else ""
    over = [pod for pod in pods if pod.over_use]
    yield f"Pods over their grant: {len(over)}; action {found.action}{rehearsal}"
    for pod in over:
        for index, each in sorted((pod.over_use or {}).items()):
            use = describe_over_use(index, Figures(each.used_bytes, each.granted_bytes))
            yield f"  {pod.pod}: {use}, since {each.since}{_why(found.passed_over.get(pod.pod))}"
    if found.last:
        yield f"  last: {found.last}"


def _why(passed_over: str | None) -> str:
    return f"; not evicted: {passed_over}" if passed_over else ""


def _card_row(card: CardStatus) -> list[str]:
    state = "healthy" if card.health is Health.HEALTHY else f"unhealthy: {card.reason}"
    numbers = (card.units, card.held_units, card.promised_units, card.reserved_units)
    states = [state, "cordoned"] if card.cordoned else [state]
    return [str(card.index), card.uuid or _NOTHING, card.mode or _NOTHING, *map(str, numbers), ", ".join(states)]


def _pod_row(pod: PodOnNode) -> list[str]:
    if pod.unconfirmed:
        state = f"unconfirmed: {','.join(pod.unconfirmed)}"
    elif pod.held_by_card:
        state = "assigned" if pod.assigned else "not marked assigned yet"
    else:
        state = "not admitted"
    recorded = index_text(pod.recorded_cards or ())
    return [pod.pod, "whole" if pod.whole else str(pod.units), recorded or _NOTHING, _by_card(pod.held_by_card), state]


def _by_card(held: Mapping[int, int]) -> str:
    return ", ".join(f"{units} of card {index}" for index, units in sorted(held.items())) or _NOTHING


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
