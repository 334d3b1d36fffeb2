"""Catching up: what was written before a moment is in the sink when it returns, with no list where none is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gcushare.core.backoff import BackoffPolicy
from gcushare.core.errors import ForbiddenError
from gcushare.kube.reflector import ReflectorSettings
from tests.protocol.kube_collection import CollectionServer, collection
from tests.protocol.reflector_rig import FAST, Running, streaming


@pytest.fixture
async def server() -> AsyncIterator[CollectionServer]:
    async with collection() as running:
        await running.put("a")
        await running.put("b")
        yield running


@pytest.fixture
async def running(server: CollectionServer) -> AsyncIterator[Running]:
    """A reflector that has listed the two, and whose watch is open."""
    async with streaming(server) as found:
        yield found


async def test_catching_up_costs_no_list_when_the_watch_is_there(server: CollectionServer, running: Running) -> None:
    await server.put("c")
    await running.picture.shows("a", "b", "c")
    await running.reflector.catch_up()
    assert running.reflector.counters["lists"] == 1
    # One object of the newest state reported the version.
    assert (server.lists[-1]["limit"], server.lists[-1].get("resourceVersion")) == ("1", None)


async def test_catching_up_lists_again_when_the_stream_is_half_open(server: CollectionServer, running: Running) -> None:
    server.silent = True
    await server.put("c")
    await server.delete("a")
    await running.reflector.catch_up()
    assert running.picture.names == ["b", "c"]
    assert running.reflector.counters["failures"] == 0
    server.silent = False
    await server.put("d")
    await running.picture.shows("b", "c", "d")


ASKING = ReflectorSettings(backoff=FAST, page_size=2, ask_above_s=0.0)
"""As if a list took long."""


async def test_catching_up_with_a_long_list_asks_a_new_stream_where_the_collection_stands(
    server: CollectionServer,
) -> None:
    async with streaming(server, settings=ASKING) as running:
        server.version += 5  # Others wrote other things: no event of ours will ever carry this version.
        catching_up = asyncio.create_task(running.reflector.catch_up())
        await running.until(lambda: server.watches[-1]["timeoutSeconds"] == "3")
        assert not catching_up.done()
        await server.bookmark()
        await catching_up
        assert (running.reflector.counters["lists"], running.reflector.counters["failures"]) == (1, 0)
        await server.end_streams()
        await running.until(lambda: server.watches[-1]["timeoutSeconds"] != "3")
        await server.put("c")
        await running.picture.shows("a", "b", "c")


@pytest.mark.slow
async def test_catching_up_lists_if_no_bookmark_comes_in_time(server: CollectionServer) -> None:
    async with streaming(server, settings=ASKING) as running:
        server.silent = True
        await server.put("c")
        await running.reflector.catch_up()
        assert running.picture.names == ["a", "b", "c"]
        assert running.reflector.counters["lists"] == 2


async def test_catching_up_does_not_wait_for_the_pause_after_failures(server: CollectionServer) -> None:
    patient = ReflectorSettings(backoff=BackoffPolicy(first_s=3600, cap_s=3600), page_size=2)
    async with streaming(server, settings=patient) as running:
        server.refuse_watches.append((500, "InternalError"))
        server.cut_streams()
        await running.until(lambda: running.reflector.counters["failures"] > 0)
        await server.put("c")
        await running.reflector.catch_up()
        assert running.picture.names == ["a", "b", "c"]


async def test_catching_up_goes_by_lists_if_versions_tell_no_order(server: CollectionServer, running: Running) -> None:
    server.opaque = True
    await asyncio.gather(running.reflector.catch_up(), running.reflector.catch_up())
    # The first call made the others list again; that list answers every call from before it began.
    assert 2 <= running.reflector.counters["lists"] <= 3


async def test_many_may_catch_up_at_once(server: CollectionServer, running: Running) -> None:
    """Two that are out of patience in one moment both end the reflector's turn."""
    server.silent = True
    await server.put("c")
    await asyncio.gather(*(running.reflector.catch_up() for _ in range(30)))
    assert running.picture.names == ["a", "b", "c"]


async def test_catching_up_fails_when_the_version_is_not_reported(server: CollectionServer, running: Running) -> None:
    server.refuse_lists.append((403, "Forbidden"))
    with pytest.raises(ForbiddenError):
        await running.reflector.catch_up()
    await server.put("c")
    await running.picture.shows("a", "b", "c")
