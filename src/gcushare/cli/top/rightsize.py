"""``rightsize``: what workloads ask for, the most that their pods used, and a request that would be enough."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from rich.text import Text

from gcushare.cli.kubectl.flags import RightsizeSettings
from gcushare.cli.kubectl.session import Session
from gcushare.cli.kubectl.summary import Summary
from gcushare.cli.terminal.layout import Cell, plain_table
from gcushare.cli.terminal.output import Document
from gcushare.cli.top.rows import PodUseRow, pod_use_hint, pod_use_rows
from gcushare.cli.top.top import gather_use, warn_of_use
from gcushare.cluster.card_tables import show_gib
from gcushare.cluster.reader import Scope
from gcushare.core.assignments import PodRef
from gcushare.core.units import MemoryUnit
from gcushare.core.wording import counted, span

MARGIN = 1.15
"""How much more than the most that was seen is suggested: frameworks differ by some percent from run to run."""
LONG_ENOUGH_S = 24 * 3600.0
"""A pod that was seen for less may not have done yet what it does once a day."""
_HASH = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{6,10}$")
"""What a Deployment adds to its name for its ReplicaSets: Kubernetes' alphabet for such hashes."""


class Sizing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One workload, as the document has it: bytes granted to its pods, and the most that one of them used of a card.

    ``cards`` that each pod has. ``suggested_units`` of all cards of a pod, None if no pod was seen for long enough, or
    if other pods share its claims. ``seen_seconds``: how long the pod has been seen that was seen longest.
    ``freed_bytes``: what the suggestion would free; less than 0 if the workload needs more than it asks for.
    """

    workload: str
    pods: int
    cards: int
    unit: str
    granted_bytes: int
    highest_bytes: int
    seen_seconds: int
    suggested_units: int | None
    freed_bytes: int


async def rightsize(session: Session, settings: RightsizeSettings) -> int:
    """Print a line per workload; the work of ``gcushare rightsize``."""
    summary, views, problems = await gather_use(session, settings.plugin_namespace, Scope())
    now = datetime.now(UTC)
    found = size_workloads(summary, pod_use_rows(summary, views), now, settings.namespace)
    if not session.print_document(lambda: sizing_document(found, problems)):
        session.screen.print_lines(sizing_lines(found, session.screen.width))
        if hint := pod_use_hint(summary, views):
            session.screen.say("note", hint)
    return warn_of_use(session, summary, problems)


def size_workloads(summary: Summary, rows: Iterable[PodUseRow], now: datetime, namespace: str | None) -> list[Sizing]:
    """Size the workloads whose pods hold cards, those first that would free most; ``namespace`` None for all."""
    refs = {str(pod.ref): pod.ref for pod in summary.snapshot.pods.values()}
    units = {node.name: node.state.unit for node in summary.nodes}
    largest = Counter[MemoryUnit | None]()
    for node in summary.nodes:
        largest[node.state.unit] = max(largest[node.state.unit], *(card.total for card in node.state.cards.values()), 0)
    groups: dict[tuple[str, int, MemoryUnit], dict[str, list[PodUseRow]]] = {}
    by_pod: dict[str, list[PodUseRow]] = {}
    for row in rows:
        if row.granted_bytes and row.highest_bytes is not None and row.pod in refs:
            by_pod.setdefault(row.pod, []).append(row)
    for pod, held in by_pod.items():
        unit = units[held[0].node]
        if unit is not None and namespace in (None, refs[pod].namespace):
            groups.setdefault((workload_of(refs[pod]), len(held), unit), {})[pod] = held
    found = [
        _size(name, cards, unit, [row for held in pods.values() for row in held], len(pods), largest[unit], now)
        for (name, cards, unit), pods in groups.items()
    ]
    return sorted(found, key=lambda each: (-each.freed_bytes, each.workload, each.cards))


def workload_of(pod: PodRef) -> str:
    """What a pod's request is written in: ``Deployment team-a/web``; the pod itself if no controller made it."""
    kind, _, name = (pod.controller or f"Pod {pod.name}").partition(" ")
    if kind == "ReplicaSet" and _HASH.search(name):
        kind, name = "Deployment", _HASH.sub("", name)
    return f"{kind} {pod.namespace}/{name}"


def _size(
    name: str, cards: int, unit: MemoryUnit, rows: Sequence[PodUseRow], pods: int, largest: int, now: datetime
) -> Sizing:
    seen = [(now - datetime.fromisoformat(row.seen_since)).total_seconds() for row in rows if row.seen_since]
    highest = max(row.highest_bytes or 0 for row in rows)
    is_known = max(seen, default=0.0) >= LONG_ENOUGH_S and not any(row.shared_with for row in rows)
    granted, suggested = sum(row.granted_bytes for row in rows), None
    if is_known:
        suggested = cards * min(largest, max(1, math.ceil(highest * MARGIN / unit.bytes_of(1))))
    return Sizing(
        workload=name,
        pods=pods,
        cards=cards,
        unit=unit.label,
        granted_bytes=granted,
        highest_bytes=highest,
        seen_seconds=int(max(seen, default=0.0)),
        suggested_units=suggested,
        freed_bytes=0 if suggested is None else granted - pods * unit.bytes_of(suggested),
    )


def sizing_lines(found: Sequence[Sizing], width: int | None) -> list[Text]:
    """The table for people, and what all suggestions together would free."""
    cells = [
        (
            each.workload,
            str(each.pods),
            show_gib(each.granted_bytes // each.pods),
            show_gib(each.highest_bytes * each.cards),
            span(each.seen_seconds),
            "-" if each.suggested_units is None else f"{each.suggested_units} ({each.unit})",
            "-" if each.suggested_units is None else show_gib(each.freed_bytes),
            Cell(_note(each)),
        )
        for each in found
    ]
    names = ("WORKLOAD", "PODS", "ASKS(GiB)", "PEAK(GiB)", "SEEN", "SUGGESTED", "FREES(GiB)", "NOTE")
    freed = sum(max(0, each.freed_bytes) for each in found)
    total = f"{counted(len(found), 'workload')}; the suggestions would free {show_gib(freed)} GiB"
    return [*plain_table(names, cells, width), Text(total)]


def _note(each: Sizing) -> str:
    if each.suggested_units is None:
        if each.seen_seconds >= LONG_ENOUGH_S:
            return "its pods share claims"
        return f"seen for less than {span(LONG_ENOUGH_S)}"
    return "it needs more than it asks for" if each.freed_bytes < 0 else ""


def sizing_document(found: Sequence[Sizing], problems: Mapping[str, str]) -> Document:
    """The same for programs; null is what is unknown."""
    return {"version": 1, "workloads": msgspec.to_builtins(found), "problems": dict(problems)}
