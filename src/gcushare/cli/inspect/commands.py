"""The table and ``explain``: read, reduce, print. Each returns the exit code; errors are the caller's to report."""

from __future__ import annotations

from gcushare.cli.explain.explain import explain_pod
from gcushare.cli.explain.text import explain_document, explain_text
from gcushare.cli.inspect import documents
from gcushare.cli.inspect.details import detail_page
from gcushare.cli.inspect.options import ExplainSettings, Output, TableSettings
from gcushare.cli.inspect.session import Session
from gcushare.cli.inspect.summary import Summary, summarise
from gcushare.cli.inspect.table import table_page
from gcushare.cli.inspect.watch import watch
from gcushare.cli.terminal.documents import to_json, to_yaml
from gcushare.cluster.follow import Connection
from gcushare.cluster.gather import SnapshotRequest, gather
from gcushare.cluster.reading import Scope


async def show_table(session: Session, settings: TableSettings) -> int:
    """Show nodes and cards once, or follow them."""
    scope = Scope(settings.node, settings.selector or "")
    request = SnapshotRequest(vendor=session.vendor, scope=scope, figures=settings.figures)
    if settings.watch:
        connection = Connection()
        async with session.connect(settings.at, connection) as api:
            return await watch(session.screen, api, connection, request, settings)
    async with session.connect(settings.at) as api, session.screen.progress() as progress:
        snapshot = await gather(api, request, progress.count)
    session.require_cards(snapshot, settings.node)
    summary = summarise(snapshot, sort_by=settings.sort_by, namespace=settings.pod_namespace)
    _print_summary(session, summary, settings)
    session.say_source(snapshot.source)
    return session.warn([*snapshot.problems, *snapshot.node_problems()])


def _print_summary(session: Session, summary: Summary, settings: TableSettings) -> None:
    screen, output = session.screen, settings.show.output
    if output is Output.JSON:
        screen.print_text(to_json(documents.document_of(summary)))
    elif output is Output.YAML:
        screen.print_text(to_yaml(documents.document_of(summary)))
    elif output is Output.CSV:
        screen.print_text(documents.cards_csv(summary))
    elif settings.details:
        screen.print_lines(detail_page(summary, screen.width).lines)
    else:
        screen.print_lines(table_page(summary, screen.width, is_wide=output is Output.WIDE).lines)


async def explain(session: Session, settings: ExplainSettings) -> int:
    """Explain one pod."""
    async with session.connect(settings.at) as api, session.screen.progress() as progress:
        namespace, _, name = settings.pod.rpartition("/")
        pod = (namespace or settings.namespace or api.config.namespace, name)
        explained = await explain_pod(api, session.vendor, settings.figures, pod, progress.count)
    screen, output = session.screen, settings.show.output
    if output is Output.JSON:
        screen.print_text(to_json(explain_document(explained)))
    elif output is Output.YAML:
        screen.print_text(to_yaml(explain_document(explained)))
    else:
        screen.print_text(explain_text(explained, screen.width))
    session.say_source(explained.source)
    return session.warn(explained.snapshot.problems)
