"""``top``: reads grants and the plugins' metrics, and prints them side by side."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.cli.inspect.commands import no_cards, require_cards
from gcushare.cli.inspect.documents import to_json, to_yaml
from gcushare.cli.inspect.options import Output, TopSettings
from gcushare.cli.inspect.session import MAX_WARNINGS, Session, warn
from gcushare.cli.inspect.summary import Summary, summarise
from gcushare.cli.top.memory_use import (
    CardKey,
    CardReadings,
    nodes_without_readings,
    pod_use_hint,
    pod_use_rows,
    use_rows,
)
from gcushare.cli.top.scrape import Scraped, scrape_plugins
from gcushare.cli.top.table import pod_use_lines, use_csv, use_lines, use_report
from gcushare.cluster.gather import SnapshotRequest, gather_from_api
from gcushare.cluster.reading import Scope
from gcushare.cluster.settings import SourceChoice, SourceFlags
from gcushare.core.wording import some_names

Readings = Mapping[CardKey, CardReadings]


async def top(session: Session, settings: TopSettings) -> int:
    """Show what is granted beside what is used."""
    scope = Scope(settings.node, settings.selector or "")
    figures = SourceFlags(source=SourceChoice.API)
    request = SnapshotRequest(vendor=session.vendor, scope=scope, figures=figures)
    async with session.connect(settings.at) as api, session.screen.progress() as progress:
        snapshot = await gather_from_api(api, request, progress.count)
        if settings.node is not None:
            require_cards(snapshot, settings.node)
        summary = summarise(snapshot)
        nodes = frozenset(node.name for node in summary.nodes)
        scraped = await scrape_plugins(api, session.vendor, settings.plugins, nodes, progress.count)
    problems = _use_problems(summary, scraped, settings)
    _print(session, settings.show.output, summary, scraped.readings, problems)
    return warn(session.screen, [*snapshot.problems, *(f"{what}: {why}" for what, why in problems.items())])


def _print(session: Session, output: Output, summary: Summary, readings: Readings, problems: dict[str, str]) -> None:
    rows, pods = use_rows(summary, readings), pod_use_rows(summary, readings)
    report = use_report(rows, pods, problems)
    match output:
        case Output.JSON:
            session.screen.print_text(to_json(report))
        case Output.YAML:
            session.screen.print_text(to_yaml(report))
        case Output.CSV:
            session.screen.print_text(use_csv(report))
        case Output.TABLE | Output.WIDE:
            if not rows:
                session.screen.say("note", no_cards(summary.snapshot))
            width = session.screen.width
            lines = use_lines(summary, rows, width, is_wide=output is Output.WIDE)
            session.screen.print_lines([*lines, *pod_use_lines(summary, pods, width)])
            if hint := pod_use_hint(summary, readings):
                session.screen.say("note", hint)


def _use_problems(summary: Summary, scraped: Scraped, settings: TopSettings) -> dict[str, str]:
    problems = {f"plugin {name}": str(error) for name, error in sorted(scraped.failures.items())}
    asked = {name.rpartition(" on ")[2] for name in scraped.failures}
    silent = [node for node in nodes_without_readings(summary, scraped.readings) if node not in asked]
    if silent:
        namespace = settings.plugins.plugin_namespace
        subject = f"node{'s' if len(silent) > 1 else ''} {some_names(silent, MAX_WARNINGS)}"
        problems[subject] = (
            f"no device plugin in namespace {namespace!r} reports what is in use there; --plugin-namespace and "
            "--plugin-selector say where the plugins are"
        )
    return problems
