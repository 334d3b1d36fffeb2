"""The commands: read, reduce, print. Each returns the exit code; errors are the caller's to tell."""

from __future__ import annotations

from gcushare.cli.explain.explain import explain_pod
from gcushare.cli.explain.text import explain_report, explain_text
from gcushare.cli.inspect import documents
from gcushare.cli.inspect.details import detail_lines
from gcushare.cli.inspect.options import ExplainSettings, Output, TableSettings
from gcushare.cli.inspect.session import Session, warn
from gcushare.cli.inspect.summary import Summary, summarise
from gcushare.cli.inspect.table import table_lines
from gcushare.cli.inspect.watch import watch
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.follow import Connection
from gcushare.cluster.gather import SnapshotRequest, gather
from gcushare.cluster.reading import Scope
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.errors import Refused


async def show_table(session: Session, settings: TableSettings) -> int:
    """Show nodes and cards once, or follow them."""
    request = SnapshotRequest(
        vendor=session.vendor,
        scope=Scope(settings.node, settings.selector or ""),
        figures=settings.figures,
    )
    if settings.watch:
        connection = Connection()
        async with session.connect(settings.at, connection) as api:
            return await watch(session.screen, api, connection, request, settings)
    async with session.connect(settings.at) as api, session.screen.progress() as progress:
        snapshot = await gather(api, request, progress.count)
    if settings.node is not None:
        require_cards(snapshot, settings.node)
    summary = summarise(snapshot, sort_by=settings.sort_by, namespace=settings.pod_namespace)
    _print_summary(session.screen, summary, settings)
    session.tell_source(snapshot.source)
    return warn(session.screen, [*snapshot.problems, *documents.node_problems(summary)])


def _print_summary(screen: Screen, summary: Summary, settings: TableSettings) -> None:
    match settings.show.output:
        case Output.JSON:
            screen.print_text(documents.to_json(documents.report_of(summary)))
        case Output.YAML:
            screen.print_text(documents.to_yaml(documents.report_of(summary)))
        case Output.CSV:
            screen.print_text(documents.to_csv(summary))
        case Output.TABLE | Output.WIDE as output:
            if not summary.nodes:
                screen.say("note", no_cards(summary.snapshot))
            if settings.details:
                screen.print_lines(detail_lines(summary, screen.width))
            else:
                screen.print_lines(table_lines(summary, screen.width, is_wide=output is Output.WIDE))


async def explain(session: Session, settings: ExplainSettings) -> int:
    """Explain one pod."""
    async with session.connect(settings.at) as api, session.screen.progress() as progress:
        pod = _pod_of(settings, api.config.namespace)
        explained = await explain_pod(api, session.vendor, settings.figures, pod, progress.count)
    match settings.show.output:
        case Output.JSON:
            session.screen.print_text(documents.to_json(explain_report(explained)))
        case Output.YAML:
            session.screen.print_text(documents.to_yaml(explain_report(explained)))
        case _:
            session.screen.print_text(explain_text(explained, session.screen.width))
    session.tell_source(explained.source)
    return warn(session.screen, explained.snapshot.problems)


def _pod_of(settings: ExplainSettings, default: str) -> tuple[str, str]:
    namespace, slash, name = settings.pod.rpartition("/")
    return (namespace, name) if slash else (settings.namespace or default, name)


def require_cards(snapshot: ClusterSnapshot, name: str) -> None:
    """Refuse a node that has no cards to show.

    Raises:
        Refused: says why, as far as the node tells.
    """
    state = snapshot.ledger.nodes.get(name)
    if state is not None and state.known:
        return
    facts = snapshot.nodes.get(name)
    if facts is not None and facts.problem:
        raise Refused(f"the cards of node {name!r} cannot be read: {facts.problem}")
    vendor = snapshot.vendor
    raise Refused(
        f"node {name!r} has no {vendor.device_word} cards: no annotation {vendor.inventory_annotation} and no capacity "
        f"{vendor.memory_resource}; label it with {vendor.node_label} and look whether the device plugin runs there"
    )


def no_cards(snapshot: ClusterSnapshot) -> str:
    vendor = snapshot.vendor
    scope = "of these nodes has" if snapshot.is_partial else "of the cluster's nodes has"
    return (
        f"none {scope} {vendor.device_word} cards; a node has them once it is labelled {vendor.node_label} and the "
        "device plugin runs there"
    )
