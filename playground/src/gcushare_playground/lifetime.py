"""How long a double lives: for a block, or as a process until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
from types import TracebackType
from typing import Self


class Startable:
    """What ``async with`` starts, and stops at the end of the block."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End; repeatable."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def log_to_stderr() -> None:
    """Have a double's process say what it does."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")


async def until_signalled(main: asyncio.Task[None] | None = None) -> None:
    """Wait for SIGTERM or SIGINT, or for the end of a double's task; raises what ended that."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    asked = asyncio.create_task(stopping.wait(), name="asked to stop")
    await asyncio.wait([asked, *([main] if main is not None else [])], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if main is not None and main.done():
        main.result()
