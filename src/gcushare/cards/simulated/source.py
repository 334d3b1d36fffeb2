"""Cards that exist only in a file, for trying out and for tests; a change of the file is followed live."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from gcushare.cards.ports import CardReport, GroupMemory, HealthEvent, HealthReading, LinkLevel
from gcushare.cards.simulated.file import MAX_FILE_BYTES, SimulatedCard, parse_simulated_cards
from gcushare.cards.unified_memory import offered_bytes
from gcushare.core.cards import Card, CardUse
from gcushare.core.errors import ConfigError, DeviceError
from gcushare.core.log_fields import fields

logger = logging.getLogger(__name__)

_LOOK_S = 0.2
"""Between two looks at the file, while an event is waited for."""


class SimulatedSource:
    """The ``CardSource`` of a file. ``unified_memory``: what a card offers that has no memory of its own.

    Raises (constructor):
        ConfigError: the file cannot be read or is wrong. Later on the last good state is kept, with a warning.
    """

    def __init__(self, path: Path, unified_memory: int = 0) -> None:
        self._path = path
        self._unified = unified_memory
        self._text = _read(path)
        self._cards = parse_simulated_cards(self._text, str(path))
        self._warned = ""

    @property
    def name(self) -> str:
        return f"simulated ({self._path})"

    async def list_cards(self) -> CardReport:
        """The cards of the file as it is now, or of its last good state."""
        self._reread()
        return self._cards.report(offered_bytes(self._unified))

    async def health(self, card: Card) -> HealthReading:
        """The card's health as the file has it; a card that it no longer has is lost."""
        entry = self._cards.find(card.uuid)
        if entry is None:
            return HealthReading(healthy=False, reason="the card is no longer in the file", conclusive=True, lost=True)
        return entry.reading

    async def use(self, card: Card) -> CardUse:
        return self._require(card).use

    async def link_level(self, card_a: Card, card_b: Card) -> LinkLevel | None:
        """A direct link within a ``link_group``, else by NUMA node; None if these are not given."""
        group_a, group_b = self._require(card_a).card.link_group, self._require(card_b).card.link_group
        if group_a and group_a == group_b:
            return LinkLevel.FABRIC
        if card_a.numa_node is None or card_b.numa_node is None:
            return None
        return LinkLevel.NUMA if card_a.numa_node == card_b.numa_node else LinkLevel.SYSTEM

    async def group_memory(self, card: Card, group: str) -> GroupMemory | None:
        raise DeviceError("simulated cards keep no memory limits")

    async def limit_group(self, card: Card, group: str, hard_bytes: int | None) -> GroupMemory | None:
        raise DeviceError("simulated cards keep no memory limits")

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        """Look at the file until it has changed."""
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            await asyncio.sleep(min(_LOOK_S, left_s))
            if self._reread():
                return HealthEvent(uuid=None, reason=f"{self._path} changed", critical=False)
        return None

    async def close(self) -> None:
        """There is nothing to release."""

    def _reread(self) -> bool:
        """Take the file's present content over; False when it is the same, or cannot be used."""
        try:
            text = _read(self._path)
            if text == self._text:
                return False
            cards = parse_simulated_cards(text, str(self._path))
        except ConfigError as error:
            if (problem := str(error)) != self._warned:
                self._warned = problem
                logger.warning("simulated cards keep their last good state %s", fields(reason=problem))
            return False
        self._text, self._cards, self._warned = text, cards, ""
        return True

    def _require(self, card: Card) -> SimulatedCard:
        entry = self._cards.find(card.uuid)
        if entry is None:
            raise DeviceError(f"card {card.index} ({card.uuid}) is not in {self._path}")
        return entry


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes: it describes no cards")
        return content.decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text: {error.reason} at byte {error.start}") from error
