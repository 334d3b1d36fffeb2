"""``kubectl inspect`` without a command: prints the table of nodes and cards.

On a pipe it is upstream gpushare's, unless ``-o`` asks for another.
"""

from __future__ import annotations

from rich.text import Text

from gcushare.cli.inspect import table_documents
from gcushare.cli.inspect.details import detail_page
from gcushare.cli.inspect.table import table_page
from gcushare.cli.inspect.upstream_table import details_text, summary_text
from gcushare.cli.kubectl.flags import Output, TableSettings
from gcushare.cli.kubectl.session import Session
from gcushare.cli.kubectl.summary import Summary, summarise
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.gather_snapshot import gather
from gcushare.cluster.reader import Reader, Scope
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.runtime.exit_codes import DONE, FAILED


async def show_table(session: Session, settings: TableSettings) -> int:
    """Show nodes and cards."""
    scope = Scope(settings.node, settings.selector or "")
    async with session.screen.progress() as progress:
        snapshot = await gather(Reader(session.api, progress), session.vendor, scope, settings.figures)
    screen = session.screen
    session.require_cards(snapshot, settings.node, may_be_empty=_is_upstream(screen, settings))
    summary = _summary(snapshot, screen, settings)
    if _is_upstream(screen, settings):
        screen.print_text(_upstream_text(summary, settings))
    elif not session.print_document(lambda: table_documents.document_of(summary)):
        screen.print_lines(_page_of(summary, screen.width, settings))
    session.say_source(snapshot.source)
    session.warn(_problems(snapshot))
    return FAILED if snapshot.problems else DONE


def _page_of(summary: Summary, width: int | None, settings: TableSettings) -> list[Text]:
    if settings.details:
        return detail_page(summary, width)
    return table_page(summary, width, is_wide=settings.show.output is Output.WIDE)


def _is_upstream(screen: Screen, settings: TableSettings) -> bool:
    """Whether a program reads the table: people have a terminal, or ask for ``-o wide``."""
    return settings.show.output is Output.TABLE and not screen.is_terminal


def _upstream_text(summary: Summary, settings: TableSettings) -> str:
    return details_text(summary) if settings.details else summary_text(summary)


def _summary(snapshot: ClusterSnapshot, screen: Screen, settings: TableSettings) -> Summary:
    is_finest = _is_upstream(screen, settings)
    return summarise(snapshot, sort_by=settings.sort_by, namespace=settings.pod_namespace, is_finest=is_finest)


def _problems(snapshot: ClusterSnapshot) -> list[str]:
    return [*snapshot.problems, *snapshot.node_problems()]
