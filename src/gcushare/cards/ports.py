"""The ports to hardware: what a source of cards answers, and the values it answers with.

Two protocols of one shape. ``CardLibrary`` is synchronous, takes slots (positions in the library's own list) and may
hang or crash. ``CardSource`` is its asynchronous front: it takes cards and does neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from gcushare.core.cards import Card, CardUse, LeftOutCard

CallObserver = Callable[[str], None]
"""Gets the name of a vendor's function right before its call, so that a hang or a crash is reported with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReading:
    """The result of reading one card's health once.

    ``conclusive``: this reading alone decides, good or bad. ``lost``: the library no longer reaches the card; opening
    the library again may help.
    """

    healthy: bool
    reason: str = ""
    conclusive: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReport:
    """The cards of this machine, by index, and those that are not shared, with the driver's version ("" if unknown).

    ``readings`` and ``uses`` are by uuid. A card without a reading could not be asked, for the reason in ``problem``,
    which says nothing about this card.
    """

    cards: tuple[Card, ...]
    left_out: tuple[LeftOutCard, ...] = ()
    driver: str = ""
    readings: Mapping[str, HealthReading] = field(default_factory=dict)
    uses: Mapping[str, CardUse] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthEvent:
    """An event that a library reported. ``uuid`` is None if the event names no card.

    ``critical``: the event alone makes the card unhealthy. Any other event only asks for a poll of the cards now.
    """

    uuid: str | None
    reason: str
    critical: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemory:
    """A control group's memory of one card, in bytes; ``hard_bytes`` is None without a limit."""

    hard_bytes: int | None
    used_bytes: int


class CardLibrary(Protocol):
    """A vendor's library as the worker calls it: from one thread, each call blocking without a time limit.

    Every method may raise ``DeviceError``; a query the library does not support answers None in its field instead.
    """

    def open(self) -> str:
        """Load and initialise the library; return the name of what was loaded."""

    def close(self) -> None:
        """Shut the library down; safe to call when ``open`` failed."""

    def driver_version(self) -> str:
        """The driver's version as text."""

    def card_count(self) -> int:
        """How many slots there are."""

    def describe(self, slot: int) -> Card | LeftOutCard:
        """The card of a slot with its memory in bytes, or why it is not shared."""

    def health(self, slot: int) -> HealthReading:
        """Read the health of the card of a slot."""

    def use(self, slot: int) -> CardUse:
        """What the card of a slot is doing now, in the units of ``CardUse``."""

    def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """Wait for the next event; None if none came.

        Raises:
            LibraryCallError: with ``is_unsupported`` if the library has no events.
        """

    def are_linked(self, slot_a: int, slot_b: int) -> bool:
        """Whether two cards have a direct link, or one switch between them, as far as the machine reports it."""


@runtime_checkable
class LimitingLibrary(Protocol):
    """A ``CardLibrary`` whose driver keeps memory limits of control groups; ``group`` is the path of a group's folder.

    Both methods raise ``LibraryCallError``, with ``is_unsupported`` from a driver that has no such limits.
    """

    def group_memory(self, slot: int, group: str) -> GroupMemory | None:
        """Read a group's limit and use; None if the driver counts nothing there."""

    def limit_group(self, slot: int, group: str, hard_bytes: int | None) -> None:
        """Set a group's hard limit; None removes it. A limit below what is in use is refused."""


class CardSource(Protocol):
    """A source of cards that never hangs or crashes its caller. One owner uses it at a time."""

    @property
    def name(self) -> str:
        """What a person calls this source: ``efml (/usr/lib/libefml.so)``."""

    async def list_cards(self) -> CardReport:
        """List the cards again, and read each.

        Raises:
            DeviceError: the source as a whole does not answer; the failure of one card never raises.
        """

    async def are_linked(self, card_a: Card, card_b: Card) -> bool:
        """As in ``CardLibrary``.

        Raises:
            DeviceError: one of the cards or the source did not answer.
        """

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """Wait for an event; None after ``timeout_s`` without one, even if the source has no events."""

    async def close(self) -> None:
        """Release everything; safe to repeat."""


class LimitSource(Protocol):
    """The cards of a driver that may keep memory limits of control groups."""

    async def list_cards(self) -> CardReport:
        """As in ``CardSource``, without readings; calls about a card need it once the library was opened."""

    async def group_memory(self, card: Card, group: str) -> GroupMemory | None:
        """As in ``LimitingLibrary``.

        Raises:
            DeviceError: the library refuses, has no such limits, or does not answer.
        """

    async def limit_group(self, card: Card, group: str, hard_bytes: int | None) -> GroupMemory | None:
        """As in ``LimitingLibrary``; returns what the driver has after that.

        Raises:
            DeviceError: the library refuses, has no such limits, or does not answer.
        """

    async def close(self) -> None:
        """Release everything; safe to repeat."""
