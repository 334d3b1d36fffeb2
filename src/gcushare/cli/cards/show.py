"""Prints pictures: once, or again and again: a live screen on a terminal, one after the other on a pipe."""

from __future__ import annotations

import asyncio

import msgspec
from rich.console import Group
from rich.text import Text

from gcushare.cli.cards.draw import picture_lines
from gcushare.cli.cards.settings import Output
from gcushare.cli.cards.status_sources import Looker
from gcushare.cli.cards.view import CardsView
from gcushare.cli.terminal.live import fit_page, open_live, time_now
from gcushare.cli.terminal.screen import Screen
from gcushare.core.errors import ConfigError, GcushareError
from gcushare.runtime.exit_codes import DONE, FAILED


async def show_once(screen: Screen, looker: Looker, output: Output) -> int:
    """Print one picture; the exit code is 1 where not everybody could be asked.

    Raises:
        GcushareError: nobody answers.
    """
    picture = await looker.look()
    _print(screen, picture, output)
    return FAILED if picture.failures else DONE


async def watch(screen: Screen, looker: Looker, output: Output, interval_s: float) -> int:
    """Follow until interrupted; what was seen last stays in sight while nobody answers.

    Raises:
        GcushareError: nobody answers at the first look.
    """
    if screen.is_terminal and output is not Output.JSON:
        await _show_live(screen, looker, output, interval_s)
    else:
        await _print_each(screen, looker, output, interval_s)
    return DONE


async def _print_each(screen: Screen, looker: Looker, output: Output, interval_s: float) -> None:
    picture = await looker.look()
    trouble = ""
    while True:
        if not trouble:
            if output is not Output.JSON:
                screen.print_text(f"{time_now()}\n")
            _print(screen, picture, output, one_line=True)
        await asyncio.sleep(interval_s)
        before = trouble
        found, trouble = await _look_again(looker)
        picture = found or picture
        if trouble != before:
            screen.tell("warning", f"{trouble}; trying again" if trouble else "answered again")


async def _show_live(screen: Screen, looker: Looker, output: Output, interval_s: float) -> None:
    picture, as_of, trouble = await looker.look(), time_now(), ""
    with open_live(screen) as display:
        while True:
            display.update(_page(screen, picture, output, _foot(as_of, trouble)), refresh=True)
            await asyncio.sleep(interval_s)
            found, trouble = await _look_again(looker)
            if found is not None:
                picture, as_of = found, time_now()


async def _look_again(looker: Looker) -> tuple[CardsView | None, str]:
    """Look, or say why there was nothing to be seen; a wrong setting does not mend itself."""
    try:
        return await looker.look(), ""
    except ConfigError:
        raise
    except GcushareError as error:
        return None, str(error)


def _foot(as_of: str, trouble: str) -> Text:
    if trouble:
        return Text(f"as of {as_of}: {trouble}; trying again", "bold red")
    return Text(f"as of {as_of}; Ctrl-C ends", "dim")


def _page(screen: Screen, picture: CardsView, output: Output, foot: Text) -> Group:
    """As much of the picture as fits, and the foot."""
    lines = [*_lines(screen, picture, output), *(_failure(*each) for each in sorted(picture.failures.items()))]
    return fit_page(screen, lines, [foot], shown_by="a taller terminal")


def _print(screen: Screen, picture: CardsView, output: Output, *, one_line: bool = False) -> None:
    if output is Output.JSON:
        encoded = msgspec.json.encode(picture)
        screen.print_text((encoded if one_line else msgspec.json.format(encoded, indent=2)).decode() + "\n")
        return
    screen.print_lines(_lines(screen, picture, output))
    for origin, why in sorted(picture.failures.items()):
        screen.tell("warning", f"{origin}: {why}")


def _lines(screen: Screen, picture: CardsView, output: Output) -> list[Text]:
    return picture_lines(picture, screen.width, is_wide=output is Output.WIDE)


def _failure(origin: str, why: str) -> Text:
    return Text(f"warning: {origin}: {why}", "yellow")
