"""Strangers who flood the page with made-up tokens, over real HTTP and with an API server that counts its reviews."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from gcushare.scheduler_extender.dashboard.dashboard_settings import Access
from gcushare.scheduler_extender.dashboard.token_reviews import PER_PEER
from gcushare_playground.apiserver import ApiServer
from tests.browser.page_rig import PageRig
from tests.protocol.page_reviews import EXTENDER, JANE, extender_client, reviewing_api

READER, STRANGER = "127.0.0.2", "127.0.0.3"


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with reviewing_api() as server:
        yield server


class Caller:
    """Somebody with an address of their own."""

    def __init__(self, url: str, address: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(local_addr=(address, 0)))

    async def __aenter__(self) -> Caller:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def show(self, token: str) -> int:
        """Show a token; returns the status."""
        async with self._session.get(self._url, headers={"Authorization": f"Bearer {token}"}) as answer:
            await answer.read()
            return answer.status

    async def flood(self, name: str, count: int) -> list[int]:
        """Show tokens that no one ever issued, many at once."""
        return list(await asyncio.gather(*(self.show(f"{name}-{number}") for number in range(count))))


def reviews(api: ApiServer) -> int:
    """How many TokenReviews the extender asked for."""
    return sum(asked.attributes.resource == "tokenreviews" for asked in api.requests.of(EXTENDER.name))


async def test_a_flood_from_one_address_keeps_no_newcomer_of_another_out_of_the_page(api: ApiServer) -> None:
    async with extender_client(api) as client, PageRig(access=Access.TOKEN, client=client) as rig:
        url = f"{rig.url}api/cluster"
        async with Caller(url, STRANGER) as stranger, Caller(url, READER) as reader:
            reported = await stranger.flood("made-up", 60)

            assert set(reported) == {401, 503}
            # The page's clock is the real one, so that a slow machine lets a few more through.
            assert reported.count(401) <= 2 * PER_PEER.burst
            assert reviews(api) == reported.count(401)
            assert await reader.show(api.add_user(JANE)) == 200
