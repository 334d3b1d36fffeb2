"""``--watch``: a live screen on a terminal, one line per change on a pipe."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

import msgspec
from rich.console import Group
from rich.text import Text

from gcushare.cli.inspect import documents
from gcushare.cli.inspect.changes import WatchedState, changes_between
from gcushare.cli.inspect.details import detail_lines
from gcushare.cli.inspect.options import Output, TableSettings
from gcushare.cli.inspect.summary import Summary, summarise
from gcushare.cli.inspect.table import table_lines
from gcushare.cli.terminal.live import fit_page, open_live, time_now
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.follow import Connection, LiveSnapshot, follow
from gcushare.cluster.gather import SnapshotRequest
from gcushare.kube.client import KubeClient
from gcushare.runtime.exit_codes import DONE

_Snapshots = AsyncGenerator[LiveSnapshot, None]

_REDRAW_S = 1.0
"""How soon a changed size of the terminal is followed."""
_SHOWN_CHANGES = 5
_FOOT = 3
"""Lines of the cluster's sum, which stay in sight."""


async def watch(
    screen: Screen, api: KubeClient, connection: Connection, request: SnapshotRequest, settings: TableSettings
) -> int:
    """Follow until interrupted, or until no one reads the output any more.

    Raises:
        BrokenPipeError: the output's reader has left.
    """
    async with follow(api, connection, request, settings.interval) as snapshots:
        if settings.show.output is Output.JSON:
            showing = _print_documents(screen, snapshots, settings)
        elif screen.is_terminal:
            showing = _show_live(screen, snapshots, settings)
        else:
            showing = _print_changes(screen, snapshots, settings)
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


async def _print_documents(
    screen: Screen, snapshots: AsyncGenerator[LiveSnapshot, None], settings: TableSettings
) -> None:
    """Print one JSON document per line and change."""
    async for live in snapshots:
        report = documents.document_of(_summary(live, settings))
        screen.print_text(msgspec.json.encode(report).decode() + "\n")


async def _print_changes(
    screen: Screen, snapshots: AsyncGenerator[LiveSnapshot, None], settings: TableSettings
) -> None:
    """Print the table once, then one line per change, each with its time."""
    before: WatchedState | None = None
    trouble = ""
    async for live in snapshots:
        summary = _summary(live, settings)
        state = WatchedState.of(summary)
        if before is None:
            screen.print_lines(_lines(summary, None, settings))
            screen.say("source", live.snapshot.source.words)
        else:
            lines = changes_between(before, state)
            screen.print_text("".join(f"{time_now()} {line}\n" for line in lines))
        if live.trouble != trouble:
            screen.say("warning", f"{live.trouble}; trying again" if live.trouble else "answered again")
        before, trouble = state, live.trouble


async def _show_live(screen: Screen, snapshots: _Snapshots, settings: TableSettings) -> None:
    table = _LiveTable(screen, settings)
    coming = asyncio.ensure_future(anext(snapshots))
    with open_live(screen) as display:
        try:
            while True:
                await asyncio.wait((coming,), timeout=_REDRAW_S)
                if coming.done():
                    table.take(coming.result())
                    coming = asyncio.ensure_future(anext(snapshots))
                display.update(table.render(), refresh=True)
        finally:
            coming.cancel()
            await asyncio.wait((coming,))


class _LiveTable:
    """What stands on the live screen: as much of the table as fits, the sum, and what changed last."""

    def __init__(self, screen: Screen, settings: TableSettings) -> None:
        self._screen = screen
        self._settings = settings
        self._live: LiveSnapshot | None = None
        self._summary: Summary | None = None
        self._state: WatchedState | None = None
        self._as_of = ""
        self._changes: deque[str] = deque(maxlen=_SHOWN_CHANGES)

    def take(self, live: LiveSnapshot) -> None:
        """Take the newest snapshot."""
        self._live, self._summary = live, _summary(live, self._settings)
        state = WatchedState.of(self._summary)
        self._as_of = time_now()
        if self._state is not None:
            self._changes.extend(f"{self._as_of} {line}" for line in changes_between(self._state, state))
        self._state = state

    def render(self) -> Group:
        """Lay it out for the terminal as it is now."""
        if self._summary is None or self._live is None:
            return Group(Text("reading the cluster…"))
        lines = _lines(self._summary, self._screen.width, self._settings)
        body, foot = lines[:-_FOOT], lines[-_FOOT:]
        changes = [Text(line, "dim") for line in self._changes]
        status = f"{self._live.snapshot.source.words}, as of {self._as_of}; Ctrl-C ends"
        if self._live.trouble:
            status = f"{self._live.trouble}: trying again; shown as of {self._as_of}"
        end = [*foot, *changes, Text(status, "bold red" if self._live.trouble else "dim")]
        return fit_page(self._screen, body, end, shown_by="a taller terminal or --sort-by")


def _summary(live: LiveSnapshot, settings: TableSettings) -> Summary:
    return summarise(live.snapshot, sort_by=settings.sort_by, namespace=settings.pod_namespace)


def _lines(summary: Summary, width: int | None, settings: TableSettings) -> list[Text]:
    if settings.details:
        return detail_lines(summary, width)
    return table_lines(summary, width, is_wide=settings.show.output is Output.WIDE)
