"""``top``: reads grants and the plugins' metrics, and prints them side by side."""

from __future__ import annotations

from gcushare.inspect.commands import MAX_WARNINGS, Session, no_cards, require_cards, warn
from gcushare.inspect.documents import to_json, to_yaml
from gcushare.inspect.gathering import Wanted, gather_from_api
from gcushare.inspect.options import Output, SourceChoice, SourceFlags, TopSettings
from gcushare.inspect.reading import Scope
from gcushare.inspect.scraping import Scraped, scrape_plugins
from gcushare.inspect.summary import Summary, summarise
from gcushare.inspect.use import nodes_without_readings, use_rows
from gcushare.inspect.use_table import use_lines, use_report
from gcushare.runtime.screen import Tracker


async def top(session: Session, settings: TopSettings) -> int:
    """Show what is granted beside what is used."""
    tracker = Tracker()
    scope = Scope(settings.node, settings.selector or "")
    figures = SourceFlags(source=SourceChoice.API)
    wanted = Wanted(vendor=session.vendor, scope=scope, figures=figures)
    async with session.connect(settings.at) as api, session.screen.progress(tracker):
        picture = await gather_from_api(api, wanted, tracker)
        if settings.node is not None:
            require_cards(picture, settings.node)
        summary = summarise(picture)
        nodes = frozenset(node.name for node in summary.nodes)
        scraped = await scrape_plugins(api, session.vendor, settings.plugins, nodes, tracker)
    rows = use_rows(summary, scraped.readings)
    problems = _use_problems(summary, scraped, settings)
    match settings.show.output:
        case Output.JSON:
            session.screen.print_text(to_json(use_report(rows, problems)))
        case Output.YAML:
            session.screen.print_text(to_yaml(use_report(rows, problems)))
        case output:
            if not rows:
                session.screen.tell("note", no_cards(picture))
            lines = use_lines(summary, rows, session.screen.width, is_wide=output is Output.WIDE)
            session.screen.print_lines(lines)
    return warn(session.screen, [*picture.problems, *(f"{what}: {why}" for what, why in problems.items())])


def _use_problems(summary: Summary, scraped: Scraped, settings: TopSettings) -> dict[str, str]:
    problems = {f"plugin {name}": str(error) for name, error in sorted(scraped.failures.items())}
    asked = {name.rpartition(" on ")[2] for name in scraped.failures}
    silent = [node for node in nodes_without_readings(summary, scraped.readings) if node not in asked]
    if silent:
        namespace = settings.plugins.plugin_namespace
        problems[f"nodes {', '.join(silent[:MAX_WARNINGS])}{', ...' if len(silent) > MAX_WARNINGS else ''}"] = (
            f"no device plugin in namespace {namespace!r} tells what the cards of {len(silent)} "
            "node(s) use; --plugin-namespace and --plugin-selector say where the plugins are"
        )
    return problems
