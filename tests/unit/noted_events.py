"""Who is handed events for pods, in the API server's place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gcushare.wire.objects import ObjectReference


@dataclass
class Noted:
    """Events as they were handed over, and a bell that rings for each."""

    events: list[tuple[str, str, str]] = field(default_factory=list)
    corrections: list[str] = field(default_factory=list)
    """The messages of those that correct an earlier one."""
    rung: asyncio.Event = field(default_factory=asyncio.Event)

    def record(
        self, about: ObjectReference, reason: str, message: str, *, warning: bool = False, corrects: bool = False
    ) -> None:
        assert warning
        self.corrections += [message] if corrects else []
        self.events.append((about.name, reason, message))
        self.rung.set()
