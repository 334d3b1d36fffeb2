"""``gcushare cards`` at work: choose whom to ask, then print once, or follow on a live screen or a pipe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
from rich.text import Text

from gcushare.cards.process_owners import PROC
from gcushare.cards.selection import SourceOptions
from gcushare.cli.cards.draw import view_lines
from gcushare.cli.cards.libraries import Libraries
from gcushare.cli.cards.settings import AUTO, DEFAULT_PLUGIN, CardsSettings, Output
from gcushare.cli.cards.status_sources import AddressSource, CardsSource, LocalSource, NodeSource
from gcushare.cli.cards.view import CardsView
from gcushare.cli.terminal.documents import to_json
from gcushare.cli.terminal.live import fit_page, open_live, time_now
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.plugin_status import ClientTls
from gcushare.core.errors import ConfigError, GcushareError
from gcushare.runtime.entry import Surroundings
from gcushare.runtime.exit_codes import DONE, FAILED


def run(settings: CardsSettings, around: Surroundings, *, proc: Path = PROC) -> int:
    """Show the cards; the exit code is 1 where some could not be asked. ``proc``: where control groups are read.

    Raises:
        GcushareError: no plugin and no library answers.
    """
    screen = Screen(around, settings.color)

    async def work() -> int:
        async with _source(settings, around, proc) as source:
            if settings.watch:
                return await _watch(screen, source, settings)
            cards = await source.fetch()
            _print(screen, cards, settings.output)
            return FAILED if cards.failures else DONE

    return asyncio.run(work())


@asynccontextmanager
async def _source(settings: CardsSettings, around: Surroundings, proc: Path) -> AsyncIterator[CardsSource]:
    """Choose whom to ask, and let go of them at the end."""
    if settings.node is not None:
        async with open_cluster(settings.kube, around.environ, program="gcushare-cards") as api:
            yield NodeSource(api, settings.plugins, settings.node, proc)
        return
    here = settings.here
    tls = ClientTls(ca_file=here.tls_ca_file, cert_file=here.tls_cert_file, key_file=here.tls_key_file)
    plugins = AddressSource(here.plugin or (DEFAULT_PLUGIN,), tls, proc, tries_tls=not here.plugin)
    if here.plugin and here.cards is None:
        yield plugins
        return
    options = SourceOptions(
        cards=here.cards or AUTO,
        libraries=here.card_library,
    )
    async with aclosing(Libraries(options)) as libraries:
        yield LocalSource(plugins if here.cards is None or here.plugin else None, libraries)


async def _watch(screen: Screen, source: CardsSource, settings: CardsSettings) -> int:
    """Follow until interrupted; what was seen last stays in sight while no one answers.

    Raises:
        GcushareError: no one answers the first time.
    """
    output = settings.output
    cards, as_of, trouble = await source.fetch(), time_now(), ""
    if screen.is_terminal and output is not Output.JSON:
        with open_live(screen) as display:
            while True:
                foot = Text(f"as of {as_of}; Ctrl-C ends", "dim")
                if trouble:
                    foot = Text(f"as of {as_of}: {trouble}; trying again", "bold red")
                lines = view_lines(cards, screen.width, is_wide=output is Output.WIDE)
                lines += [Text(f"warning: {origin}: {why}", "yellow") for origin, why in sorted(cards.failures.items())]
                display.update(fit_page(screen, lines, [foot], shown_by="a taller terminal"), refresh=True)
                await asyncio.sleep(settings.interval)
                found, trouble = await _fetch_again(source)
                if found is not None:
                    cards, as_of = found, time_now()
    while True:
        if not trouble:
            if output is not Output.JSON:
                screen.print_text(f"{time_now()}\n")
            _print(screen, cards, output, one_line=True)
        await asyncio.sleep(settings.interval)
        before = trouble
        found, trouble = await _fetch_again(source)
        cards = found or cards
        if trouble != before:
            screen.say("warning", f"{trouble}; trying again" if trouble else "answered again")


async def _fetch_again(source: CardsSource) -> tuple[CardsView | None, str]:
    """Read, or say why there was no answer; a wrong setting does not repair itself."""
    try:
        return await source.fetch(), ""
    except ConfigError:
        raise
    except GcushareError as error:
        return None, str(error)


def _print(screen: Screen, cards: CardsView, output: Output, *, one_line: bool = False) -> None:
    if output is Output.JSON:
        screen.print_text(msgspec.json.encode(cards).decode() + "\n" if one_line else to_json(cards))
        return
    screen.print_lines(view_lines(cards, screen.width, is_wide=output is Output.WIDE))
    for origin, why in sorted(cards.failures.items()):
        screen.say("warning", f"{origin}: {why}")
