"""``top``: reads grants and the plugins' metrics, and prints them side by side."""

from __future__ import annotations

from dataclasses import dataclass, field

from gcushare.cli.kubectl.flags import Output, TopSettings
from gcushare.cli.kubectl.session import MAX_WARNINGS, Session
from gcushare.cli.kubectl.summary import Summary, summarise
from gcushare.cli.terminal.output_formats import to_json, to_yaml
from gcushare.cli.top.rows import CardKey, CardReadings, parse_metrics, pod_use_hint, pod_use_rows, use_rows
from gcushare.cli.top.table import pod_use_lines, use_csv, use_document, use_lines
from gcushare.cluster.cluster_flags import PluginPodSettings
from gcushare.cluster.gather_snapshot import SnapshotRequest, gather
from gcushare.cluster.reader import Dated, Reader, Scope
from gcushare.core.errors import GcushareError
from gcushare.core.wording import some_names
from gcushare.vendors.vendor import Vendor


async def top(session: Session, settings: TopSettings) -> int:
    """Show what is granted next to what is used."""
    request = SnapshotRequest(vendor=session.vendor, scope=Scope(settings.node, settings.selector or ""))
    async with session.connect(settings.at) as api, session.screen.progress() as progress:
        reader = Reader(api, progress)
        snapshot = await gather(reader, request)
        session.require_cards(snapshot, settings.node)
        summary = summarise(snapshot)
        nodes = frozenset(node.name for node in summary.nodes)
        scraped = await read_plugins(reader, session.vendor, settings.plugins, nodes)
    problems = _problems(summary, scraped, settings)
    rows, pods = use_rows(summary, scraped.readings), pod_use_rows(summary, scraped.readings)
    screen, output = session.screen, session.output
    if output is Output.JSON:
        screen.print_text(to_json(use_document(rows, pods, problems)))
    elif output is Output.YAML:
        screen.print_text(to_yaml(use_document(rows, pods, problems)))
    elif output is Output.CSV:
        screen.print_text(use_csv(rows, pods))
    else:
        lines = use_lines(summary, rows, screen.width, is_wide=output is Output.WIDE)
        screen.print_lines([*lines, *pod_use_lines(summary, pods, screen.width)])
        if hint := pod_use_hint(summary, scraped.readings):
            screen.say("note", hint)
    return session.warn([*snapshot.problems, *(f"{what}: {why}" for what, why in problems.items())])


@dataclass(frozen=True, slots=True)
class Scraped:
    """What the plugins reported by card, and by node and plugin why one could not be asked."""

    readings: dict[CardKey, CardReadings] = field(default_factory=dict)
    failures: dict[tuple[str, str], GcushareError] = field(default_factory=dict)

    @property
    def nodes(self) -> set[str]:
        """Nodes whose plugin was asked, with or without an answer."""
        return {node for node, _ in (*self.readings, *self.failures)}


async def read_plugins(reader: Reader, vendor: Vendor, place: PluginPodSettings, nodes: frozenset[str]) -> Scraped:
    """Ask the plugins of these nodes for their metrics.

    Raises:
        GcushareError: the plugins' pods cannot be listed.
    """
    plugins = [pod for pod in await reader.list_plugins(place) if pod.spec.node_name in nodes]
    scraped = Scraped()

    def read(answer: Dated) -> dict[CardKey, CardReadings]:
        return parse_metrics(answer.body.decode("utf-8", errors="replace"), vendor.name)

    for pod, found in await reader.ask_plugins(plugins, "/metrics", read, place=place):
        if isinstance(found, GcushareError):
            scraped.failures[pod.spec.node_name, pod.key] = found
        else:
            scraped.readings.update(found)
    return scraped


def _problems(summary: Summary, scraped: Scraped, settings: TopSettings) -> dict[str, str]:
    problems = {
        f"plugin {name} on {node}": str(error)
        for (node, name), error in sorted(scraped.failures.items(), key=lambda item: item[0][1])
    }
    silent = [node.name for node in summary.nodes if node.name not in scraped.nodes]
    if silent:
        namespace = settings.plugins.plugin_namespace
        subject = f"node{'s' if len(silent) > 1 else ''} {some_names(silent, MAX_WARNINGS)}"
        problems[subject] = (
            f"no device plugin in namespace {namespace!r} reports what is in use there; --plugin-namespace and "
            "--plugin-selector say where the plugins are"
        )
    return problems
