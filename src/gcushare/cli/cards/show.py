"""Prints a node's cards: once, or again and again: a live screen on a terminal, one after the other on a pipe."""

from __future__ import annotations

import asyncio

import msgspec
from rich.console import Group
from rich.text import Text

from gcushare.cli.cards.draw import view_lines
from gcushare.cli.cards.settings import Output
from gcushare.cli.cards.status_sources import CardsSource
from gcushare.cli.cards.view import CardsView
from gcushare.cli.terminal.live import fit_page, open_live, time_now
from gcushare.cli.terminal.screen import Screen
from gcushare.core.errors import ConfigError, GcushareError
from gcushare.runtime.exit_codes import DONE, FAILED


async def show_once(screen: Screen, source: CardsSource, output: Output) -> int:
    """Print the cards once; the exit code is 1 where not everybody could be asked.

    Raises:
        GcushareError: nobody answers.
    """
    cards = await source.fetch()
    _print(screen, cards, output)
    return FAILED if cards.failures else DONE


async def watch(screen: Screen, source: CardsSource, output: Output, interval_s: float) -> int:
    """Follow until interrupted; what was seen last stays in sight while nobody answers.

    Raises:
        GcushareError: nobody answers at the first look.
    """
    if screen.is_terminal and output is not Output.JSON:
        await _show_live(screen, source, output, interval_s)
    else:
        await _print_each(screen, source, output, interval_s)
    return DONE


async def _print_each(screen: Screen, source: CardsSource, output: Output, interval_s: float) -> None:
    cards = await source.fetch()
    trouble = ""
    while True:
        if not trouble:
            if output is not Output.JSON:
                screen.print_text(f"{time_now()}\n")
            _print(screen, cards, output, one_line=True)
        await asyncio.sleep(interval_s)
        before = trouble
        found, trouble = await _fetch_again(source)
        cards = found or cards
        if trouble != before:
            screen.say("warning", f"{trouble}; trying again" if trouble else "answered again")


async def _show_live(screen: Screen, source: CardsSource, output: Output, interval_s: float) -> None:
    cards, as_of, trouble = await source.fetch(), time_now(), ""
    with open_live(screen) as display:
        while True:
            display.update(_page(screen, cards, output, _foot(as_of, trouble)), refresh=True)
            await asyncio.sleep(interval_s)
            found, trouble = await _fetch_again(source)
            if found is not None:
                cards, as_of = found, time_now()


async def _fetch_again(source: CardsSource) -> tuple[CardsView | None, str]:
    """Look, or say why there was nothing to be seen; a wrong setting does not mend itself."""
    try:
        return await source.fetch(), ""
    except ConfigError:
        raise
    except GcushareError as error:
        return None, str(error)


def _foot(as_of: str, trouble: str) -> Text:
    if trouble:
        return Text(f"as of {as_of}: {trouble}; trying again", "bold red")
    return Text(f"as of {as_of}; Ctrl-C ends", "dim")


def _page(screen: Screen, cards: CardsView, output: Output, foot: Text) -> Group:
    """As much of the cards as fits, and the foot."""
    lines = [*_lines(screen, cards, output), *(_failure(*each) for each in sorted(cards.failures.items()))]
    return fit_page(screen, lines, [foot], shown_by="a taller terminal")


def _print(screen: Screen, cards: CardsView, output: Output, *, one_line: bool = False) -> None:
    if output is Output.JSON:
        encoded = msgspec.json.encode(cards)
        screen.print_text((encoded if one_line else msgspec.json.format(encoded, indent=2)).decode() + "\n")
        return
    screen.print_lines(_lines(screen, cards, output))
    for origin, why in sorted(cards.failures.items()):
        screen.say("warning", f"{origin}: {why}")


def _lines(screen: Screen, cards: CardsView, output: Output) -> list[Text]:
    return view_lines(cards, screen.width, is_wide=output is Output.WIDE)


def _failure(origin: str, why: str) -> Text:
    return Text(f"warning: {origin}: {why}", "yellow")
