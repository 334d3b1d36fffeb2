"""A small client of the DevTools protocol: commands with answers, events for every listener, one socket.

Source: https://chromedevtools.github.io/devtools-protocol/ (Target, Page, Runtime, Input, Network, Log, Emulation).
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any, Self

import aiohttp

Message = dict[str, Any]
COMMAND_S = 20.0


class DevToolsError(Exception):
    """The browser refused a command, or a script in the page failed."""


class DevTools:
    """One connection to a browser; sessions speak to its tabs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._listeners: dict[str, list[Callable[[str, Message], None]]] = {}

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        self._socket = await self._http.ws_connect(self._url, max_msg_size=0, autoclose=True)
        self._reading = asyncio.create_task(self._read(), name="read DevTools")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()
        await self._reading
        await self._http.close()

    async def send(self, method: str, session: str = "", **params: Any) -> Message:
        """Send a command and return its result.

        Raises:
            DevToolsError: the browser refused it.
        """
        number = next(self._ids)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        await self._socket.send_json(message)
        async with asyncio.timeout(COMMAND_S):
            return await answer

    def listen(self, session: str, listener: Callable[[str, Message], None]) -> None:
        """Hand every event of a session to a listener."""
        self._listeners.setdefault(session, []).append(listener)

    async def _read(self) -> None:
        async for raw in self._socket:
            message = json.loads(raw.data)
            if "id" in message:
                self._resolve(message)
            else:
                for listener in self._listeners.get(message.get("sessionId", ""), ()):
                    listener(message["method"], message.get("params", {}))
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(DevToolsError("the browser closed the connection"))

    def _resolve(self, message: Message) -> None:
        answer = self._answers.pop(message["id"])
        if answer.done():
            return
        if "error" in message:
            answer.set_exception(
                DevToolsError(f"{message['error'].get('message')}: {message['error'].get('data', '')}")
            )
        else:
            answer.set_result(message.get("result", {}))
