"""Strangers who flood the page with made-up tokens, over real HTTP and with an API server that counts its reviews."""

from __future__ import annotations

import asyncio

import aiohttp

from gcushare.scheduler_extender.dashboard.dashboard_settings import Access
from gcushare.scheduler_extender.dashboard.reviewed_tokens import UNKNOWN_BURST
from gcushare_playground.apiserver import ApiServer
from tests.browser.page_rig import PageRig
from tests.protocol.page_reviews import EXTENDER, JANE, extender_client


def reviews(api: ApiServer) -> int:
    """How many TokenReviews the extender asked for."""
    return sum(asked.attributes.resource == "tokenreviews" for asked in api.requests.of(EXTENDER.name))


async def test_a_flood_of_made_up_tokens_disconnects_no_reader_and_costs_the_api_server_little(
    reviewing: ApiServer,
) -> None:
    async with (
        extender_client(reviewing) as client,
        PageRig(access=Access.TOKEN, client=client) as rig,
        aiohttp.ClientSession() as http,
    ):

        async def show(token: str) -> int:
            async with http.get(f"{rig.url}api/cluster", headers={"Authorization": f"Bearer {token}"}) as answer:
                await answer.read()
                return answer.status

        jane = reviewing.add_user(JANE)
        assert await show(jane) == 200
        before = reviews(reviewing)
        reported = await asyncio.gather(*(show(f"made-up-{number}") for number in range(100)))

        assert set(reported) == {401, 503}
        # The page's clock is the real one, so that a slow machine lets a few more through.
        assert reported.count(401) <= 3 * UNKNOWN_BURST
        assert reviews(reviewing) - before == reported.count(401)
        assert await show(jane) == 200
