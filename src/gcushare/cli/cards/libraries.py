"""The vendors' libraries, read without any plugin: what the hardware says, and nothing of pods."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field, replace

from gcushare.cards.errors import NoSourceError
from gcushare.cards.libraries import VENDOR_OF_LIBRARY
from gcushare.cards.ports import CardReport, CardSource, HealthReading
from gcushare.cards.selection import SourceOptions, open_source
from gcushare.cli.cards.view import CardView, NodeView, ProcessView, Source
from gcushare.core.cards import Card, CardUse
from gcushare.core.errors import DeviceError
from gcushare.wire.documents.plugin_status import LeftOutStatus


@dataclass(slots=True)
class Libraries:
    """One library, or with ``auto`` every one that has cards here; opened when first asked, kept until ``aclose``."""

    options: SourceOptions
    node: str = field(default_factory=lambda: socket.gethostname().lower())
    _sources: dict[str, CardSource] = field(default_factory=dict)

    async def views(self, note: str) -> tuple[NodeView, ...]:
        """Look at every library once.

        Raises:
            ConfigError: there is no such library, or the simulated cards' file cannot be used.
            DeviceError: none of them has cards; says why of each.
        """
        self._open()
        answers = await asyncio.gather(*(self._look(name, source, note) for name, source in self._sources.items()))
        views = tuple(answer for answer in answers if isinstance(answer, NodeView))
        if not views:
            raise NoSourceError("; ".join(str(answer) for answer in answers))
        return views

    async def aclose(self) -> None:
        """Give the libraries back."""
        for source in self._sources.values():
            await source.close()

    def _open(self) -> None:
        if not self._sources:
            names = list(VENDOR_OF_LIBRARY) if self.options.cards == "auto" else [self.options.cards]
            self._sources = {name: open_source(replace(self.options, cards=name)) for name in names}

    async def _look(self, name: str, source: CardSource, note: str) -> NodeView | str:
        try:
            report = await source.list_cards()
        except DeviceError as error:
            return f"{name}: {error}"
        if not report.cards and not report.left_out:
            return f"{name}: it lists no cards"
        vendor = VENDOR_OF_LIBRARY.get(name)
        cards = [await _look_at(source, card) for card in report.cards]
        whose = vendor.name if vendor is not None else ""
        return self._view(report, tuple(cards), vendor=whose, origin=source.name, note=note)

    def _view(
        self, report: CardReport, cards: tuple[CardView, ...], *, vendor: str, origin: str, note: str
    ) -> NodeView:
        return NodeView(
            node=self.node,
            vendor=vendor,
            source=Source.LIBRARY,
            origin=origin,
            version="",
            driver=report.driver,
            unit=None,
            modes=(),
            pods_known=False,
            note=note,
            problems={},
            cards=cards,
            left_out=tuple(LeftOutStatus(index=c.index, uuid=c.uuid, reason=c.reason) for c in report.left_out),
            waiting=(),
            unreadable_pods=(),
        )


async def _look_at(source: CardSource, card: Card) -> CardView:
    """One look: unlike the plugin, which waits for a second bad reading, it shows what is read now."""
    use = CardUse()
    try:
        reading = await source.health(card)
        if reading.healthy:
            use = await source.use(card)
    except DeviceError as error:
        reading = HealthReading(healthy=False, reason=str(error))
    return CardView(
        index=card.index,
        uuid=card.uuid,
        model=card.model,
        serial=card.serial,
        pci=card.pci_address,
        numa_node=card.numa_node,
        healthy=reading.healthy,
        reason=reading.reason,
        cordoned=False,
        closed=(),
        mode=None,
        memory_bytes=card.memory_bytes,
        units=None,
        reserved_units=0,
        granted_units=0,
        unrecorded_units=0,
        used_bytes=use.memory_used_bytes,
        temperature_celsius=use.temperature_celsius,
        power_watts=use.power_watts,
        utilization_percent=use.utilization_percent,
        fan_percent=use.fan_percent,
        performance_state=use.performance_state,
        compute_mode=use.compute_mode,
        ecc=use.ecc,
        mig=use.mig,
        holders=(),
        processes=tuple(ProcessView(pid=pid, bytes=size) for pid, size in sorted((use.processes or {}).items())),
    )
