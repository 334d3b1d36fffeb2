"""Cards that exist only in a file, for trying out and for tests; a change of the file is followed live."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from gcushare.cards.ports import CardReport, HealthEvent
from gcushare.cards.simulated.file import MAX_FILE_BYTES, parse_simulated_cards
from gcushare.cards.unified_memory import offered_bytes
from gcushare.core.cards import Card
from gcushare.core.errors import ConfigError
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

    async def are_linked(self, card_a: Card, card_b: Card) -> bool:
        """Not asked where the file has link groups."""
        return False

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
