"""``top``: reads grants and the plugins' statuses, and prints memory granted and in use side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from rich.text import Text

from gcushare.cli.kubectl.flags import Output, TopSettings
from gcushare.cli.kubectl.session import MAX_WARNINGS, Session
from gcushare.cli.kubectl.summary import Summary, summarise
from gcushare.cli.terminal.layout import Cell, plain_table
from gcushare.cli.terminal.output import Document
from gcushare.cli.top.rows import CardUseRow, PodUseRow, pod_use_hint, pod_use_rows, use_rows
from gcushare.cluster.card_tables import show_figure, show_gib
from gcushare.cluster.gather_snapshot import gather
from gcushare.cluster.node_view import NodeView, view_status
from gcushare.cluster.reader import Reader, Scope
from gcushare.core.errors import GcushareError
from gcushare.core.wording import counted, some_names


async def top(session: Session, settings: TopSettings) -> int:
    """Show what is granted next to what is used."""
    scope = Scope(settings.node, settings.selector or "")
    summary, views, problems = await gather_use(session, settings.plugin_namespace, scope)
    rows, pods = use_rows(summary, views), pod_use_rows(summary, views)
    screen, output = session.screen, session.output
    if not session.print_document(lambda: use_document(rows, pods, problems)):
        lines = use_lines(summary, rows, screen.width, is_wide=output is Output.WIDE)
        screen.print_lines([*lines, *pod_use_lines(summary, pods, screen.width, has_peak=settings.peak)])
        if hint := pod_use_hint(summary, views):
            screen.say("note", hint)
    return warn_of_use(session, summary, problems)


async def gather_use(
    session: Session, plugin_namespace: str, scope: Scope
) -> tuple[Summary, dict[str, NodeView], dict[str, str]]:
    """Read the cluster, and ask the plugins of its nodes; returns what they report, by node.

    The last is why the use on some nodes is not known, by plugin that could not be asked, or node without one.

    Raises:
        GcushareError: the API server does not answer, or the node that was asked for has no cards.
    """
    views: dict[str, NodeView] = {}
    problems: dict[str, str] = {}
    async with session.screen.progress() as progress:
        reader = Reader(session.api, progress)
        snapshot = await gather(reader, session.vendor, scope)
        session.require_cards(snapshot, scope.node)
        summary = summarise(snapshot)
        silent = {node.name for node in summary.nodes}
        plugins = [pod for pod in await reader.list_plugins(plugin_namespace) if pod.spec.node_name in silent]
        answers = await reader.ask_plugins(plugins)
    for pod, found in answers:
        node = pod.spec.node_name
        if isinstance(found, GcushareError):
            problems[f"plugin {pod.key} on {node}"] = str(found)
        elif found.vendor == session.vendor.name:
            views[node] = view_status(found, pod.key, {})
        else:
            continue
        silent.discard(node)
    if silent:
        names = [node.name for node in summary.nodes if node.name in silent]
        subject = f"node{'s' if len(names) > 1 else ''} {some_names(names, MAX_WARNINGS)}"
        problems[subject] = (
            f"no device plugin in namespace {plugin_namespace!r} reports what is in use there; --plugin-namespace says "
            "where the plugins are"
        )
    return summary, views, problems


def warn_of_use(session: Session, summary: Summary, problems: Mapping[str, str]) -> int:
    """Report what could not be read, and return the exit code."""
    return session.warn([*summary.snapshot.problems, *(f"{what}: {why}" for what, why in problems.items())])


_UNKNOWN = "-"
_MAX_PODS = 4
_DOCUMENT_VERSION = 1


def use_lines(summary: Summary, rows: Sequence[CardUseRow], width: int | None, *, is_wide: bool) -> list[Text]:
    """The table; pods by name only if it is wide, or if a card is over-used."""
    label, word = _words(summary)
    cells = []
    for row in rows:
        style = "bold red" if row.is_over else ""
        over = f"over by {show_gib(row.excess_bytes)}: {_pods(row) or 'no pod holds this card'}" if row.is_over else ""
        cells.append(
            (
                row.node,
                str(row.index),
                show_gib(row.granted_bytes),
                Cell(show_gib(row.used_bytes), style),
                show_gib(row.total_bytes or None),
                show_figure(row.utilization_percent, "%"),
                show_figure(row.temperature_celsius, "°C"),
                show_figure(row.power_watts, "W"),
                _pods(row) if is_wide else str(len(row.pods)),
                Cell(over, style),
            )
        )
    names = ("NAME", word, f"GRANTED({label})", f"USED({label})", f"TOTAL({label})", "UTIL", "TEMP", "POWER", "PODS")
    lines = plain_table((*names, "NOTE"), cells, width)
    over_count = sum(row.is_over for row in rows)
    if over_count:
        note = f"{counted(over_count, 'card', 'hold')} more than its pods were granted, the driver's own memory aside"
        lines.append(Text(note, "red"))
    return lines


def pod_use_lines(
    summary: Summary, rows: Sequence[PodUseRow], width: int | None, *, has_peak: bool = False
) -> list[Text]:
    """The table of pods, with the most that each used if ``has_peak``; nothing if no plugin reports what they use."""
    if not rows:
        return []
    label, word = _words(summary)
    cells = []
    for row in rows:
        style = "bold red" if row.is_over else ""
        notes = [f"over by {show_gib(row.excess_bytes)}"] if row.is_over else []
        notes += ["reported on the pod"] if row.is_reported else []
        notes += [f"idle since {row.idle_since}"] if row.idle_since else []
        notes += [f"granted together with {some_names(row.shared_with)}"] if row.shared_with else []
        note = Cell(", ".join(notes), style)
        used = Cell(show_gib(row.used_bytes), style)
        busy = show_figure(row.utilization_percent, "%")
        limit = show_gib(row.limit_bytes or None)
        peak = (show_gib(row.highest_bytes), row.seen_since or _UNKNOWN) if has_peak else ()
        amounts = (show_gib(row.granted_bytes), limit, used)
        cells.append((row.node, str(row.index), row.pod, *amounts, *peak, row.used_source, busy, note))
    words = (f"GRANTED({label})", f"LIMIT({label})", f"USED({label})", *((f"PEAK({label})", "SINCE") * has_peak))
    headings = ("NAME", word, "POD", *words, "BY", "UTIL", "NOTE")
    lines = [Text(), *plain_table(headings, cells, width)]
    over_count = sum(row.is_over for row in rows)
    if over_count:
        lines.append(Text(f"{counted(over_count, 'pod', 'use')} more than granted", "red"))
    return lines


def use_document(rows: Sequence[CardUseRow], pods: Sequence[PodUseRow], problems: Mapping[str, str]) -> Document:
    """The same for programs, in bytes; null is what is unknown.

    ``pods`` are those of the nodes whose plugins report what each uses; ``problems`` by plugin that could not be asked,
    or node without one.
    """
    return {
        "version": _DOCUMENT_VERSION,
        "cards": msgspec.to_builtins(rows),
        "pods": msgspec.to_builtins(pods),
        "problems": dict(problems),
    }


def _words(summary: Summary) -> tuple[str, str]:
    """What amounts and cards are called."""
    return "GiB" if summary.scale.label.endswith("iB") else "GB", summary.snapshot.vendor.device_word


def _pods(row: CardUseRow) -> str:
    return some_names(row.pods, _MAX_PODS)
