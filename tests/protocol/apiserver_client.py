"""A bare HTTP client for the API server double: what is tested is what stands on the wire."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import msgspec

from gcushare_playground.apiserver import ApiServer

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One response, with its JSON body decoded."""

    code: int
    body: Any
    headers: dict[str, str]


class Watch:
    """An open watch, read event by event."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Any:
        """Return the next event, None at a proper end.

        Raises:
            aiohttp.ClientPayloadError: the connection broke.
        """
        async with asyncio.timeout(DEADLINE_S):
            line = await self.response.content.readline()
        return msgspec.json.decode(line) if line else None

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Return the types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


class Api:
    """A session with one server."""

    def __init__(self, server: ApiServer, token: str | None = None) -> None:
        self._server = server
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def __aenter__(self) -> Self:
        # One connection per request: what a fault breaks is then only the request it affected.
        connector = aiohttp.TCPConnector(force_close=True)
        timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
        self._session = aiohttp.ClientSession(headers=self._headers, connector=connector, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(
        self, method: str, path: str, body: Any = None, *, media: str = "application/json", **headers: str
    ) -> Answer:
        """Send one request; ``body`` may be bytes or anything JSON can say."""
        raw_body = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        # aiohttp warns about large bodies given as bytes.
        data = None if raw_body is None else io.BytesIO(raw_body)
        sent = {"Content-Type": media} | {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, self._server.url + path, data=data, headers=sent) as response:
            raw = await response.read()
            is_json = response.content_type == "application/json"
            return Answer(response.status, msgspec.json.decode(raw) if is_json else raw, dict(response.headers))

    async def get(self, path: str, **headers: str) -> Answer:
        """Read."""
        return await self.call("GET", path, **headers)

    async def create(self, path: str, body: Any) -> Answer:
        """Create, expecting success."""
        answer = await self.call("POST", path, body)
        assert answer.code == 201, answer.body
        return answer

    @asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator[Watch]:
        """Open a watch; ``path`` carries its query after ``watch=true``."""
        async with self._session.get(self._server.url + path, headers=headers) as response:
            assert response.status == 200, await response.text()
            yield Watch(response)
