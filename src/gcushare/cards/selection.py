"""``--cards auto|efml|nvml|simulated:FILE``: which source a node's cards come from, and why not from the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gcushare.cards.errors import NoSourceError
from gcushare.cards.libraries import LIBRARIES, LibraryKind, LibrarySpec
from gcushare.cards.pci import PCI_DEVICES
from gcushare.cards.ports import CardReport, CardSource, HealthEvent, HealthReading, LinkLevel, LinkSource
from gcushare.cards.worker.client import IsolatedSource, IsolationSettings
from gcushare.core.cards import Card, CardUse
from gcushare.core.errors import ConfigError, DeviceError

logger = logging.getLogger(__name__)

_SIMULATED = "simulated:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Where cards come from. ``cards`` is the text of ``--cards``; libraries are paths, "" for the usual places."""

    cards: str = "auto"
    efml_library: str = ""
    nvml_library: str = ""
    prefer: LibraryKind = "efml"
    """Whose cards ``auto`` takes where a node has both: those of the vendor the program speaks for."""
    extra_application_xids: tuple[int, ...] = ()
    pci_devices: str = str(PCI_DEVICES)
    isolation: IsolationSettings = field(default_factory=IsolationSettings)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A source that ``auto`` did not take, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What ``auto`` decided: ``found`` names the source ("" for none)."""

    found: str
    passed_over: tuple[PassedOver, ...]

    def __str__(self) -> str:
        reasons = "; ".join(f"{passed.name}: {passed.reason}" for passed in self.passed_over)
        return f"{self.found or 'no cards'} ({reasons})" if reasons else self.found


def open_source(options: SourceOptions) -> CardSource:
    """Create the source that ``options.cards`` names. Nothing is loaded before its first ``list_cards``.

    Raises:
        ConfigError: not one of the accepted forms, or the simulated file is unreadable or wrong.
    """
    match options.cards:
        case "auto":
            kinds = sorted(LIBRARIES, key=lambda kind: kind != options.prefer)
            return AutoSource([_isolated(kind, options) for kind in kinds])
        case kind if kind in LIBRARIES:
            return _isolated(kind, options)
        case text if text.startswith(_SIMULATED) and text != _SIMULATED:
            # Imported only here: real nodes go without the YAML reader and the file watcher.
            from gcushare.cards.simulated.source import SimulatedSource

            return SimulatedSource(Path(text.removeprefix(_SIMULATED)))
        case _:
            accepted = ", ".join(("auto", *LIBRARIES, "simulated:FILE"))
            raise ConfigError(f"cards {options.cards!r} is not a source; accepted: {accepted}")


def _isolated(kind: LibraryKind, options: SourceOptions) -> IsolatedSource:
    spec = LibrarySpec(
        kind=kind,
        library={"efml": options.efml_library, "nvml": options.nvml_library}.get(kind, ""),
        pci_devices=options.pci_devices,
        extra_application_xids=options.extra_application_xids,
    )
    return IsolatedSource(spec, options.isolation)


class AutoSource:
    """The first of several sources that has cards; asked again while none has. The choice, once made, stays."""

    def __init__(self, candidates: Sequence[CardSource]) -> None:
        self._candidates = tuple(candidates)
        self._chosen: CardSource | None = None
        self.selection = Selection("", ())

    @property
    def name(self) -> str:
        return self._chosen.name if self._chosen is not None else "auto"

    async def list_cards(self) -> CardReport:
        return await (self._chosen.list_cards() if self._chosen is not None else self._choose())

    async def health(self, card: Card) -> HealthReading:
        return await self._require_chosen().health(card)

    async def use(self, card: Card) -> CardUse:
        return await self._require_chosen().use(card)

    async def link_level(self, card_a: Card, card_b: Card) -> LinkLevel | None:
        chosen = self._require_chosen()
        return await chosen.link_level(card_a, card_b) if isinstance(chosen, LinkSource) else None

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
            NoSourceError: none has.
        """
        chosen: CardReport | None = None
        passed_over: list[PassedOver] = []
        for candidate in self._candidates:
            try:
                report = await candidate.list_cards()
            except DeviceError as error:
                passed_over.append(PassedOver(candidate.name, str(error)))
                continue
            count = len(report.cards) + len(report.left_out)
            if chosen is None and count:
                self._chosen, chosen = candidate, report
                continue
            reason = f"it has {count} cards too; choose it with --cards" if count else "it lists no cards"
            passed_over.append(PassedOver(candidate.name, reason))
        self._note(Selection(self.name if self._chosen is not None else "", tuple(passed_over)))
        if chosen is None:
            raise NoSourceError(str(self.selection))
        for candidate in self._candidates:
            if candidate is not self._chosen:
                await candidate.close()
        return chosen

    def _note(self, selection: Selection) -> None:
        if selection != self.selection:
            logger.info("cards looked for selection=%s", selection)
        self.selection = selection

    def _require_chosen(self) -> CardSource:
        if self._chosen is None:
            raise DeviceError(f"no source of cards was found yet: {self.selection}")
        return self._chosen
