"""``--cards auto|LIBRARY|simulated:FILE``: which source a node's cards come from, and why not from the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gcushare.cards.libraries import LIBRARY_FORMS, PCI_DEVICES, SOURCES, VENDOR_OF_LIBRARY, LibrarySpec
from gcushare.cards.ports import CardReport, CardSource, HealthEvent, LimitSource
from gcushare.cards.worker.client import IsolatedSource
from gcushare.cards.worker.time_limits import IsolationSettings
from gcushare.core.cards import Card
from gcushare.core.errors import ConfigError, DeviceError
from gcushare.core.log_fields import fields
from gcushare.core.wording import counted

logger = logging.getLogger(__name__)

_SIMULATED = "simulated:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Where cards come from. ``cards`` is the text of ``--cards``, one of ``SOURCES``."""

    cards: str = "auto"
    libraries: tuple[str, ...] = ()
    """``NAME=FILE`` for each library that is not in the usual places."""
    prefer: str = ""
    """The library that ``auto`` asks first: that of the vendor the program speaks for; "" for the usual order."""
    extra_application_xids: tuple[int, ...] = ()
    unified_memory: int = 0
    """As in ``LibrarySpec``."""
    pci_devices: str = str(PCI_DEVICES)
    isolation: IsolationSettings = field(default_factory=IsolationSettings)


def open_source(options: SourceOptions) -> CardSource:
    """Create the source that ``options.cards`` names. Nothing is loaded before its first ``list_cards``.

    Raises:
        ConfigError: not one of the accepted forms, a file of no library, or the simulated file is unreadable or wrong.
    """
    if options.cards == "auto":
        kinds = sorted(VENDOR_OF_LIBRARY, key=lambda kind: kind != options.prefer)
        return AutoSource([_isolated(kind, options) for kind in kinds])
    if options.cards in VENDOR_OF_LIBRARY:
        return _isolated(options.cards, options)
    if path := options.cards.removeprefix(_SIMULATED) if options.cards.startswith(_SIMULATED) else "":
        # Imported only here: real nodes go without the YAML reader and the file watcher.
        from gcushare.cards.simulated.source import SimulatedSource

        return SimulatedSource(Path(path), options.unified_memory)
    raise ConfigError(f"cards {options.cards!r} is not a source; accepted: {', '.join(SOURCES)}")


def open_limits(options: SourceOptions) -> LimitSource:
    """Open the preferred library for its limits of memory alone, in another process than the one that reads cards."""
    return _isolated(options.prefer, options, reads=False)


def _isolated(kind: str, options: SourceOptions, *, reads: bool = True) -> IsolatedSource:
    pairs = [text.partition("=") for text in options.libraries]
    wrong = [name + sign + path for name, sign, path in pairs if name not in VENDOR_OF_LIBRARY or not path]
    if wrong:
        raise ConfigError(f"card-library {wrong[0]!r} names no library; accepted: {' or '.join(LIBRARY_FORMS)}")
    spec = LibrarySpec(
        kind=kind,
        library={name: path for name, _, path in pairs}.get(kind, ""),
        pci_devices=options.pci_devices,
        extra_application_xids=options.extra_application_xids,
        unified_memory=options.unified_memory,
    )
    return IsolatedSource(spec, options.isolation, reads=reads)


class AutoSource:
    """The first of several sources that has cards; asked again while none has. The choice, once made, stays."""

    def __init__(self, candidates: Sequence[CardSource]) -> None:
        self._candidates = tuple(candidates)
        self._chosen: CardSource | None = None
        self.selection = ""
        """Which source was chosen, and why none of the others, as text."""

    @property
    def name(self) -> str:
        """The chosen source's name; ``auto`` before the choice."""
        return self._chosen.name if self._chosen is not None else "auto"

    async def list_cards(self) -> CardReport:
        return await (self._chosen.list_cards() if self._chosen is not None else self._choose())

    async def are_linked(self, card_a: Card, card_b: Card) -> bool:
        if self._chosen is None:
            raise DeviceError(f"no source of cards was found yet: {self.selection}")
        return await self._chosen.are_linked(card_a, card_b)

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        if self._chosen is not None:
            return await self._chosen.wait_event(timeout_s)
        await asyncio.sleep(timeout_s)
        return None

    async def close(self) -> None:
        for candidate in self._candidates:
            await candidate.close()

    async def _choose(self) -> CardReport:
        """Ask every candidate; keep the first that has cards, even if it shares none of them.

        Raises:
            DeviceError: none has; it has the reason for each.
        """
        chosen: CardReport | None = None
        reasons: list[str] = []
        for candidate in self._candidates:
            try:
                report = await candidate.list_cards()
            except DeviceError as error:
                reasons.append(f"{candidate.name}: {error}")
                continue
            count = len(report.cards) + len(report.left_out)
            if chosen is None and count:
                self._chosen, chosen = candidate, report
                continue
            reason = f"it has {counted(count, 'card')} too; choose it with --cards" if count else "it lists no cards"
            reasons.append(f"{candidate.name}: {reason}")
        found = self.name if self._chosen is not None else "no cards"
        selection = f"{found} ({'; '.join(reasons)})" if reasons else found
        if selection != self.selection:
            logger.info("cards looked for %s", fields(selection=selection))
        self.selection = selection
        if chosen is None:
            raise DeviceError(selection)
        for candidate in self._candidates:
            if candidate is not self._chosen:
                await candidate.close()
        return chosen
