"""How long a double lives."""

from __future__ import annotations

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
