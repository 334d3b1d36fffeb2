"""An extender that answers as a test tells it and remembers what it was asked, over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Answer = Callable[[dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its verb, raw body and headers."""

    verb: str
    body: bytes
    headers: dict[str, str]

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def pod(self) -> str:
        document = self.document
        return str(document["PodName"] if "PodName" in document else document["Pod"]["metadata"]["name"])


class ScriptedExtender:
    """Serves ``/ext/<verb>``. Without a script: every node stays, all score 0, and ``bind`` has to be scripted."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answers: dict[str, Answer] = {"filter": _keep_all, "prioritize": _score_zero}
        self.failing_with = 0
        """Not 0: every answer has this status."""
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        app = web.Application()
        app.router.add_post("/ext/{verb}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/ext"

    async def stop(self) -> None:
        """Stop listening; may be called again."""
        if self._runner is not None:
            await self._runner.cleanup()

    def of(self, verb: str, pod: str = "") -> list[Asked]:
        return [asked for asked in self.asked if asked.verb == verb and pod in ("", asked.pod)]

    async def wait_for(self, verb: str, pod: str, count: int = 1) -> list[Asked]:
        """Wait until a verb was called for a pod this often."""
        async with asyncio.timeout(60.0):
            while len(self.of(verb, pod)) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.of(verb, pod)

    async def _answer(self, request: web.Request) -> web.Response:
        asked = Asked(request.match_info["verb"], await request.read(), dict(request.headers))
        self.asked.append(asked)
        self._changed.set()
        if self.failing_with:
            return web.Response(status=self.failing_with)
        return web.json_response(await self.answers[asked.verb](asked.document))


async def _keep_all(arguments: dict[str, Any]) -> Any:
    return {"NodeNames": arguments["NodeNames"]}


async def _score_zero(arguments: dict[str, Any]) -> Any:
    return [{"Host": name, "Score": 0} for name in arguments["NodeNames"]]


def refuse(reason: str) -> Answer:
    """Refuse every node for one reason."""

    async def answer(arguments: dict[str, Any]) -> Any:
        return {"NodeNames": [], "FailedNodes": dict.fromkeys(arguments["NodeNames"], reason)}

    return answer


def say(words: Any) -> Answer:
    """Answer the same to everything."""

    async def answer(_: dict[str, Any]) -> Any:
        return words

    return answer
