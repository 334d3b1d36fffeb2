"""``kubectl inspect`` without a command: reads the cluster and prints the table of nodes and cards."""

from __future__ import annotations

from gcushare.cli.inspect import table_documents
from gcushare.cli.inspect.details import detail_page
from gcushare.cli.inspect.table import table_page
from gcushare.cli.inspect.table_watch import watch
from gcushare.cli.kubectl.flags import Output, TableSettings
from gcushare.cli.kubectl.session import Session
from gcushare.cli.kubectl.summary import summarise
from gcushare.cli.terminal.output_formats import to_json, to_yaml
from gcushare.cluster.follow import Connection
from gcushare.cluster.gather_snapshot import SnapshotRequest, gather
from gcushare.cluster.reader import Reader, Scope


async def show_table(session: Session, settings: TableSettings) -> int:
    """Show nodes and cards once, or follow them."""
    scope = Scope(settings.node, settings.selector or "")
    request = SnapshotRequest(vendor=session.vendor, scope=scope, figures=settings.figures)
    if settings.watch:
        connection = Connection()
        async with session.connect(settings.at, connection) as api:
            return await watch(session.screen, api, connection, request, settings)
    async with session.connect(settings.at) as api, session.screen.progress() as progress:
        snapshot = await gather(Reader(api, progress), request)
    session.require_cards(snapshot, settings.node)
    summary = summarise(snapshot, sort_by=settings.sort_by, namespace=settings.pod_namespace)
    screen, output = session.screen, settings.show.output
    if output is Output.JSON:
        screen.print_text(to_json(table_documents.document_of(summary)))
    elif output is Output.YAML:
        screen.print_text(to_yaml(table_documents.document_of(summary)))
    elif output is Output.CSV:
        screen.print_text(table_documents.cards_csv(summary))
    elif settings.details:
        screen.print_lines(detail_page(summary, screen.width).lines)
    else:
        screen.print_lines(table_page(summary, screen.width, is_wide=output is Output.WIDE).lines)
    session.say_source(snapshot.source)
    return session.warn([*snapshot.problems, *snapshot.node_problems()])
