"""Waiting for what only answers questions; what can be watched is waited for by ``Picture.until``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gcushare_playground.picture import NotInTime

_PROBE_S = 0.05


async def until(ask: Callable[[], Awaitable[str]], what: str, *, deadline_s: float = 180.0) -> None:
    """Ask until the answer is empty; ``ask`` says what is still missing.

    Raises:
        NotInTime: something was still missing at the deadline; the message carries what.
    """
    missing = "nothing was asked yet"
    try:
        async with asyncio.timeout(deadline_s):
            while missing := await ask():  # noqa: ASYNC110 - no one over there sets an event of ours
                await asyncio.sleep(_PROBE_S)
    except TimeoutError as error:
        raise NotInTime(f"waited {deadline_s:g}s until {what}; now: {missing}") from error
