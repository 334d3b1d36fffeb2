"""A machine's cards: they fall ill, vanish, come back, and are numbered differently; a ``CardSource`` of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gcushare.cards.ports import CardReport, GroupMemory, HealthEvent, HealthReading
from gcushare.core.cards import Card
from gcushare.core.errors import DeviceError
from simulation.control_groups import ControlGroups

GIB = 1 << 30


@dataclass(slots=True)
class SimulatedCard:
    """One card. ``is_sick`` is its health, ``is_gone`` whether it fell off the bus."""

    card: Card
    is_sick: bool = False
    is_gone: bool = False


@dataclass
class Machine:
    """One node's cards. ``is_silent``: the vendor's library does not answer. ``groups`` are its control
    groups, where the driver limits memory.
    """

    cards: dict[int, SimulatedCard]
    order: list[int]
    """The cards that the driver lists, by slot; the place in this list is the minor number."""
    groups: ControlGroups | None = None
    is_silent: bool = False
    changed: set[asyncio.Event] = field(default_factory=set)

    def slot_of(self, uuid: str) -> int:
        """Where a card is plugged in, whatever number its driver gives it."""
        return next(slot for slot, each in self.cards.items() if each.card.uuid == uuid)


def make_machine(node: str, gigabytes: tuple[int, ...]) -> Machine:
    """A node with cards of these sizes."""
    cards = {
        index: SimulatedCard(Card(index=index, uuid=f"GCU-{node}-{index}", model="S60", memory_bytes=size * GIB))
        for index, size in enumerate(gigabytes)
    }
    return Machine(cards, list(cards))


class SimulatedSource:
    """The ``LimitSource`` of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def name(self) -> str:
        return "simulated"

    async def list_cards(self) -> CardReport:
        """List and read the cards that are there; nothing is known of their use."""
        await asyncio.sleep(0.002)
        self._require()
        found = [self._machine.cards[slot] for slot in self._machine.order]
        listed = [(at, each) for at, each in enumerate(found) if not each.is_gone]
        return CardReport(
            cards=tuple(msgspec.structs.replace(each.card, index=at) for at, each in listed),
            readings={
                each.card.uuid: HealthReading(
                    healthy=not each.is_sick, reason="XID 79" if each.is_sick else "", conclusive=True
                )
                for _, each in listed
            },
        )

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """It has no events."""
        await asyncio.sleep(timeout_s)
        return None

    async def are_linked(self, card_a: Card, card_b: Card) -> bool:
        """None is to any other."""
        return False

    async def group_memory(self, card: Card, group: str) -> GroupMemory | None:
        """Read a group."""
        await asyncio.sleep(0.001)
        return self._groups.read(Path(group), self._machine.slot_of(card.uuid))

    async def limit_group(self, card: Card, group: str, hard_bytes: int | None) -> GroupMemory | None:
        """Set a group's limit, and read it back."""
        await asyncio.sleep(0.001)
        slot = self._machine.slot_of(card.uuid)
        self._groups.limit(Path(group), slot, hard_bytes)
        return self._groups.read(Path(group), slot)

    async def close(self) -> None:
        """Nothing is held."""

    @property
    def _groups(self) -> ControlGroups:
        self._require()
        if self._machine.groups is None:
            raise DeviceError("the simulated library keeps no limits")
        return self._machine.groups

    def _require(self) -> None:
        if self._machine.is_silent:
            raise DeviceError("the library does not answer")
