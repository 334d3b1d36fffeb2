"""Reading parts of the snapshot: a bounded number at a time, and never stopped by what cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TypeVar

from gcushare.cli.doctor.facts import Area, ClockFacts, Unread
from gcushare.cli.doctor.rights import Right
from gcushare.cluster.endpoints import Endpoint
from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock

T = TypeVar("T")

AT_ONCE = 24
"""Questions under way at once: a thousand plugins answer within seconds, and no API server notices."""

ANSWER_S = 5.0
"""How long a program may take to answer; they answer in milliseconds."""

Progress = Callable[[str], None]
"""Told what is being done."""


@dataclass(frozen=True, slots=True)
class Dated:
    """An answer with the clock of whoever gave it: ahead of ours by ``ahead_s``, give or take ``within_s``."""

    body: bytes
    ahead_s: float | None = None
    within_s: float = 0.0


@dataclass(slots=True)
class Reader:
    """Asks one API server. ``unread`` is what could not be read, ``ahead_s`` the server's clock against ours."""

    client: KubeClient
    clock: Clock
    progress: Progress
    missing: Sequence[Right] = ()
    unread: list[Unread] = field(default_factory=list)
    ahead_s: float = 0.0
    within_s: float = 0.0
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def now(self) -> datetime:
        """The API server's time."""
        return self.clock.now() + timedelta(seconds=self.ahead_s)

    def may_read(self, part: Area) -> bool:
        """Whether no right for it is missing."""
        return not any(right.part is part for right in self.missing)

    async def attempt(self, part: Area, right: str, read: Callable[[], Awaitable[T]], default: T) -> T:
        """Read a part; what cannot be read is noted, and ``default`` taken. Nothing is tried without its right."""
        if not self.may_read(part):
            return default
        try:
            async with self._slots:
                return await read()
        except NotFoundError:
            return default
        except ForbiddenError as failure:
            self.unread.append(Unread(part, str(failure), right))
        except GcushareError as failure:
            self.unread.append(Unread(part, str(failure)))
        return default

    async def ask(self, endpoint: Endpoint, path: str) -> Dated:
        """Ask a program over HTTP. Raises the errors of ``gcushare.kube``."""
        async with self._slots:
            return await dated(endpoint.client, self.clock, f"{endpoint.prefix}{path}", endpoint.resource or "address")

    def clock_of(self, subject: str, answer: Dated) -> tuple[ClockFacts, ...]:
        """How far the clock behind an answer is ahead of the API server's."""
        if answer.ahead_s is None:
            return ()
        within_s = answer.within_s + self.within_s
        return (ClockFacts(subject=subject, ahead_s=answer.ahead_s - self.ahead_s, within_s=within_s),)


async def dated(client: KubeClient, clock: Clock, path: str, words: str) -> Dated:
    """Read an answer with its Date; the header counts whole seconds, so half a second is added."""
    sent, began = clock.now(), clock.monotonic()
    body, date = await client.get_dated(path, words, timeout_s=ANSWER_S)
    took_s = clock.monotonic() - began
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return Dated(body)
    middle = sent + timedelta(seconds=took_s / 2)
    return Dated(body, (moment - middle).total_seconds() + 0.5, 0.5 + took_s / 2)
