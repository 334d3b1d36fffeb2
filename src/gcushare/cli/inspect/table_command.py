"""``kubectl inspect`` without a command: prints the table of nodes and cards once, or follows it with ``--watch``.

Followed, it is a live screen on a terminal; on a pipe it is the table again whenever it changed. On a pipe the table is
upstream gpushare's, unless ``-o`` asks for another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime

import msgspec
from rich.console import Group
from rich.live import Live
from rich.text import Text

from gcushare.cli.inspect import table_documents
from gcushare.cli.inspect.details import detail_page
from gcushare.cli.inspect.table import Page, table_page
from gcushare.cli.inspect.upstream_table import details_text, summary_text
from gcushare.cli.kubectl.flags import Output, TableSettings
from gcushare.cli.kubectl.session import Session
from gcushare.cli.kubectl.summary import Summary, summarise
from gcushare.cli.terminal.screen import Screen, harmless
from gcushare.cluster.follow import Connection, LiveSnapshot, follow
from gcushare.cluster.gather_snapshot import gather
from gcushare.cluster.reader import Reader, Scope
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.log_fields import escape
from gcushare.core.wording import counted
from gcushare.runtime.exit_codes import DONE, FAILED


async def show_table(session: Session, settings: TableSettings) -> int:
    """Show nodes and cards once, or follow them."""
    scope = Scope(settings.node, settings.selector or "")
    if settings.watch:
        connection = Connection()
        async with (
            session.connect(settings.kube, connection) as api,
            follow(api, connection, session.vendor, scope) as snapshots,
        ):
            return await watch(session.screen, snapshots, settings)
    async with session.connect(settings.kube) as api, session.screen.progress() as progress:
        snapshot = await gather(Reader(api, progress), session.vendor, scope, settings.figures)
    screen = session.screen
    session.require_cards(snapshot, settings.node, may_be_empty=_is_upstream(screen, settings))
    summary = _summary(snapshot, screen, settings)
    if _is_upstream(screen, settings):
        screen.print_text(_upstream_text(summary, settings))
    elif not session.print_document(lambda: table_documents.document_of(summary)):
        screen.print_lines(_page_of(summary, screen.width, settings).lines)
    session.say_source(snapshot.source)
    session.warn(_problems(snapshot))
    return FAILED if snapshot.problems else DONE


Snapshots = AsyncGenerator[LiveSnapshot, None]

_REDRAW_S = 1.0
"""How soon a changed size of the terminal is followed."""
_MAX_PROBLEMS = 5
"""Of what cannot be read, which stays in sight too, so that there is room for the table."""


async def watch(screen: Screen, snapshots: Snapshots, settings: TableSettings) -> int:
    """Show snapshots until interrupted, or until no one reads the output any more.

    Raises:
        BrokenPipeError: the output's reader has left.
    """
    if settings.show.output is Output.JSON:
        showing = print_documents(screen, snapshots, settings)
    elif screen.is_terminal:
        showing = _show_live(screen, snapshots, settings)
    else:
        showing = print_tables(screen, snapshots, settings)
    await _first_of(
        asyncio.create_task(showing, name="show what changes"),
        asyncio.create_task(screen.until_closed(), name="wait for the reader to leave"),
    )
    return DONE


async def _first_of(*tasks: asyncio.Task[None]) -> None:
    """Wait for the first task to end, end the others, and raise what it raised as it is: no group around it."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def print_documents(screen: Screen, snapshots: Snapshots, settings: TableSettings) -> None:
    """Print one JSON document per line and change; a Node's heartbeat is none."""
    before = trouble = ""
    async for live in snapshots:
        line = (
            msgspec.json.encode(table_documents.document_of(_summary(live.snapshot, screen, settings))).decode() + "\n"
        )
        if line != before:
            screen.print_text(line)
        before, trouble = line, _say_trouble(screen, live, trouble)


async def print_tables(screen: Screen, snapshots: Snapshots, settings: TableSettings) -> None:
    """Print the table below the time, and again once it looks different."""
    before: list[Text] = []
    said: list[str] = []
    trouble = ""
    async for live in snapshots:
        summary, problems = _summary(live.snapshot, screen, settings), _problems(live.snapshot)
        if _is_upstream(screen, settings):
            lines = [Text(line) for line in _upstream_text(summary, settings).splitlines()]
            for problem in problems if problems != said else ():
                screen.say("warning", problem)
        else:
            body, foot = _lines(summary, None, settings)
            lines = [*body, *foot]
        if lines != before:
            screen.print_lines([Text(_time_now()), *lines])
        before, said, trouble = lines, problems, _say_trouble(screen, live, trouble)


def _say_trouble(screen: Screen, live: LiveSnapshot, said: str) -> str:
    """Say on stderr what is not answered, or that it is answered again, unless that was ``said`` last."""
    if live.trouble != said:
        screen.say("warning", f"{live.trouble}; trying again" if live.trouble else "answered again")
    return live.trouble


async def _show_live(screen: Screen, snapshots: Snapshots, settings: TableSettings) -> None:
    """Draw the newest state on the terminal's other screen, and again if its size may have changed."""
    shown: LiveSnapshot | None = None
    as_of = ""
    coming = asyncio.ensure_future(anext(snapshots))
    with Live(console=screen.console(), screen=True, auto_refresh=False, vertical_overflow="crop") as display:
        try:
            while True:
                await asyncio.wait((coming,), timeout=_REDRAW_S)
                if coming.done():
                    shown, as_of = coming.result(), _time_now()
                    coming = asyncio.ensure_future(anext(snapshots))
                page = Text("reading the cluster…") if shown is None else _page(screen, shown, as_of, settings)
                display.update(page, refresh=True)
        finally:
            coming.cancel()
            await asyncio.wait((coming,))


def _page(screen: Screen, live: LiveSnapshot, as_of: str, settings: TableSettings) -> Group:
    """As much of the table as there is room for, and the cluster's sum below it."""
    body, foot = _lines(_summary(live.snapshot, screen, settings), screen.width, settings)
    status = Text(f"{live.snapshot.source.text}, as of {as_of}; Ctrl-C ends", "dim")
    if live.trouble:
        status = Text(f"{live.trouble}: trying again; shown as of {as_of}", "bold red")
    foot.append(status)
    room = max(2, screen.height - len(foot))
    if len(body) > room:
        hidden = len(body) - room + 1
        rest = f"… {counted(hidden, 'more line')}: a taller terminal or --sort-by shows more"
        body = [*body[: room - 1], Text(rest, "dim")]
    page = [harmless(line) for line in (*body, *foot)]
    for line in page:
        line.no_wrap = True
    return Group(*page)


def _page_of(summary: Summary, width: int | None, settings: TableSettings) -> Page:
    if settings.details:
        return detail_page(summary, width)
    return table_page(summary, width, is_wide=settings.show.output is Output.WIDE)


def _time_now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")


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


def _lines(summary: Summary, width: int | None, settings: TableSettings) -> tuple[list[Text], list[Text]]:
    """The table, and what stays in sight below it: what could not be read, and the cluster's sum without that."""
    page = _page_of(summary, width, settings)
    problems = _problems(summary.snapshot)
    shown = [escape(problem) for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        shown.append(f"and {len(problems) - _MAX_PROBLEMS} more; -o json lists all")
    return page.body, [*[Text(f"warning: {each}", "yellow") for each in shown], *page.sum]
