"""``gcushare cards`` at work: choose whom to ask, then show it once or follow it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gcushare.cards.process_owners import PROC
from gcushare.cards.selection import SourceOptions
from gcushare.cli.cards.libraries import Libraries
from gcushare.cli.cards.settings import AUTO, DEFAULT_PLUGIN, CardsSettings, HereSettings
from gcushare.cli.cards.show import show_once, watch
from gcushare.cli.cards.status_sources import AddressSource, CardsSource, LibrarySource, LocalSource, NodeSource
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.plugin_status import ClientTls
from gcushare.runtime.entry import Surroundings

PROGRAM_NAME = "gcushare-cards"
"""How the API server's log calls it."""


def run(settings: CardsSettings, around: Surroundings, proc: Path | None) -> int:
    """Show the cards; returns the exit code. ``proc`` is where processes' control groups are read, /proc where None.

    Raises:
        GcushareError: no plugin and no library answers.
    """
    return asyncio.run(_Command(settings, around, proc or PROC).run())


@dataclass(frozen=True, slots=True)
class _Command:
    settings: CardsSettings
    around: Surroundings
    proc: Path

    async def run(self) -> int:
        settings = self.settings
        screen = Screen(self.around, settings.color)
        async with self._source() as source:
            if settings.watch:
                return await watch(screen, source, settings.output, settings.interval)
            return await show_once(screen, source, settings.output)

    @asynccontextmanager
    async def _source(self) -> AsyncIterator[CardsSource]:
        """Choose whom to ask, and let go of them at the end."""
        if self.settings.node is not None:
            async with open_cluster(self.settings.kube, self.around.environ, program=PROGRAM_NAME) as api:
                yield NodeSource(api, self.settings.plugins, self.settings.node, self.proc)
            return
        here = self.settings.here
        tls = ClientTls(ca_file=here.tls_ca_file, cert_file=here.tls_cert_file, key_file=here.tls_key_file)
        plugins = AddressSource(here.plugin or (DEFAULT_PLUGIN,), tls, self.proc, tries_tls=not here.plugin)
        if here.plugin and here.cards is None:
            yield plugins
            return
        async with aclosing(Libraries(_source_options(here))) as libraries:
            if here.cards is not None and not here.plugin:
                yield LibrarySource(libraries)
            else:
                yield LocalSource(plugins, libraries)


def _source_options(here: HereSettings) -> SourceOptions:
    return SourceOptions(
        cards=here.cards or AUTO,
        efml_library=str(here.efml_library or ""),
        nvml_library=str(here.nvml_library or ""),
    )
