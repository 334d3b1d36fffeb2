"""One request for what a program shows of itself."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import aiohttp


async def fetch(
    url: str, headers: Mapping[str, str] | None = None, *, tls: ssl.SSLContext | None = None
) -> tuple[int, str]:
    """Status and text of the answer to a GET; ``tls`` is the client's, for HTTPS."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls or True)) as session,
        session.get(url, headers=headers) as answer,
    ):
        return answer.status, await answer.text()
