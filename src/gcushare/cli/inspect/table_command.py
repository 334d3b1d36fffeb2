"""``kubectl inspect`` without a command: prints the table of nodes and cards.

On a pipe it is upstream gpushare's, unless ``-o`` asks for another.
"""

from __future__ import annotations

from gcushare.cli.inspect.details import detail_page
from gcushare.cli.inspect.table import table_page
from gcushare.cli.inspect.table_documents import document_of
from gcushare.cli.inspect.upstream_table import details_text, summary_text
from gcushare.cli.kubectl.flags import Output, TableSettings
from gcushare.cli.kubectl.session import Session
from gcushare.cli.kubectl.summary import summarise
from gcushare.cluster.gather_snapshot import gather
from gcushare.cluster.reader import Reader, Scope
from gcushare.runtime.exit_codes import DONE, FAILED


async def show_table(session: Session, settings: TableSettings) -> int:
    """Show nodes and cards."""
    scope = Scope(settings.node, settings.selector or "")
    async with session.screen.progress() as progress:
        snapshot = await gather(Reader(session.api, progress), session.vendor, scope, settings.figures)
    screen = session.screen
    # A program reads the table where people have no terminal, and do not ask for `-o wide`.
    is_upstream = settings.show.output is Output.TABLE and not screen.is_terminal
    session.require_cards(snapshot, settings.node, may_be_empty=is_upstream)
    summary = summarise(snapshot, sort_by=settings.sort_by, namespace=settings.pod_namespace, is_finest=is_upstream)
    if is_upstream:
        screen.print_text(details_text(summary) if settings.details else summary_text(summary))
    elif not session.print_document(lambda: document_of(summary)):
        if settings.details:
            screen.print_lines(detail_page(summary, screen.width))
        else:
            screen.print_lines(table_page(summary, screen.width, is_wide=settings.show.output is Output.WIDE))
    session.say_source(snapshot.source)
    session.warn([*snapshot.problems, *snapshot.node_problems()])
    return FAILED if snapshot.problems else DONE
