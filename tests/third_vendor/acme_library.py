"""The third vendor's library: two cards, without any C."""

from __future__ import annotations

import time

from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.pci import PciBus
from gcushare.cards.ports import CallObserver, CardLibrary, HealthEvent, HealthReading
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.units import GIB


def create_library(spec: LibrarySpec, bus: PciBus, observe: CallObserver) -> CardLibrary:
    return AcmeLibrary(spec.library)


class AcmeLibrary:
    def __init__(self, path: str) -> None:
        self._path = path

    def open(self) -> str:
        return self._path or "libacmeml.so"

    def close(self) -> None: ...

    def driver_version(self) -> str:
        return "1.0"

    def card_count(self) -> int:
        return 2

    def describe(self, slot: int) -> Card | LeftOutCard:
        return Card(index=slot, uuid=f"NPU-{slot}", memory_bytes=16 * GIB, model="A1")

    def health(self, slot: int) -> HealthReading:
        return HealthReading(healthy=True)

    def use(self, slot: int) -> CardUse:
        return CardUse(memory_used_bytes=GIB)

    def wait_event(self, timeout_s: float) -> HealthEvent | None:
        time.sleep(timeout_s)
        return None

    def are_linked(self, slot_a: int, slot_b: int) -> bool:
        return False
