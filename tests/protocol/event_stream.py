"""Server-sent events as a program reads them."""

from __future__ import annotations

import asyncio

import aiohttp

DEADLINE_S = 60.0


class Events:
    """A stream of server-sent events, read one by one."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> dict[str, str]:
        event: dict[str, str] = {}
        async with asyncio.timeout(DEADLINE_S):
            while line := (await self._answer.content.readline()).decode().rstrip("\n"):
                name, _, value = line.partition(": ")
                event[name] = value
        return event

    async def until(self, name: str) -> dict[str, str]:
        while (event := await self.next())["event"] != name:
            pass
        return event
