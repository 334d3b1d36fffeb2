"""The kubelet double over HTTP: what it makes of an API server's answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from gcushare.core.errors import ConflictError, ForbiddenError, GcushareError, NotFoundError, RetryableError
from gcushare_playground.kubelet import HttpNodeApi
from gcushare_playground.kubelet.api import GoneError
from tests.protocol.kubelet_rig import NODE

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Serve one handler for every path on a free port and yield the base URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "family"),
    [
        (401, ForbiddenError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, GoneError),
        (429, RetryableError),
        (500, RetryableError),
        (503, RetryableError),
    ],
)
async def test_every_status_is_an_error_of_its_family(status: int, family: type[GcushareError]) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": "no"}, status=status)

    async with serving(refuse) as url, HttpNodeApi(url) as api:
        with pytest.raises(family, match=f"answered {status}") as caught:
            await api.get_node(NODE)
        assert type(caught.value) is family
        with pytest.raises(family):
            await anext(aiter(api.watch_pods(NODE, "1")))


async def test_a_server_that_is_away_is_retryable() -> None:
    async with HttpNodeApi("http://127.0.0.1:9") as api:
        with pytest.raises(RetryableError, match="GET /api/v1/nodes/node-1 failed"):
            await api.get_node(NODE)


@pytest.mark.parametrize(
    ("line", "family"),
    [
        pytest.param(b'{"type":"ERROR","object":{"code":410,"message":"too old"}}\n', GoneError, id="gone"),
        pytest.param(b'{"type":"ERROR","object":{"code":500}}\n', RetryableError, id="failed"),
        pytest.param(b'{"type":"ADDED","obj', RetryableError, id="cut in a line"),
    ],
)
async def test_a_watch_that_breaks_says_how(line: bytes, family: type[GcushareError]) -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line)
        return response

    async with serving(stream) as url, HttpNodeApi(url) as api:
        with pytest.raises(family):
            await anext(aiter(api.watch_pods(NODE, "1")))


async def test_the_token_travels_as_a_bearer() -> None:
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def note(request: web.Request) -> web.StreamResponse:
        seen.set_result(request.headers["Authorization"])
        return web.json_response({"metadata": {"name": NODE}})

    async with serving(note) as url, HttpNodeApi(url, token="secret") as api:
        await api.get_node(NODE)
    assert await seen == "Bearer secret"
