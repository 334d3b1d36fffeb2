"""Runs ``gcushare cards``: choose the plugins to ask, and print the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gcushare.cards.process_owners import PROC
from gcushare.cli.cards.cards_settings import HERE, CardsSettings, Output
from gcushare.cli.cards.status_sources import ask_addresses, ask_node
from gcushare.cli.terminal.output_formats import to_json
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.card_drawing.draw import view_lines
from gcushare.cluster.card_drawing.node_view import CardsView
from gcushare.cluster.connection import open_cluster
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE, FAILED


def run(settings: CardsSettings, process: ProcessContext, *, proc: Path = PROC) -> int:
    """Show the cards; the exit code is 1 if some plugins could not be asked. ``proc``: the folder of control groups.

    Raises:
        GcushareError: no plugin answers.
    """

    async def work() -> CardsView:
        if settings.node is None:
            if settings.plugin:
                return await ask_addresses(settings.plugin, proc)
            return await ask_addresses(HERE[:1], proc, others=HERE[1:])
        async with open_cluster(settings.kube, process.environ, program="gcushare-cards") as api:
            return await ask_node(api, settings.plugins, settings.node, proc)

    cards = asyncio.run(work())
    screen = Screen(process, settings.color)
    if settings.output is Output.JSON:
        screen.print_text(to_json(cards))
    else:
        screen.print_lines(view_lines(cards, screen.width, is_wide=settings.output is Output.WIDE))
        for origin, why in sorted(cards.failures.items()):
            screen.say("warning", f"{origin}: {why}")
    return FAILED if cards.failures else DONE
