from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from gcushare_playground.apiserver import (
    ApiServer,
    ApiServerConfig,
    CutWatch,
    Delay,
    DropAfter,
    DropBefore,
    FailAfter,
    FailBefore,
    Fault,
    User,
)
from tests.protocol.apiserver_client import CONFIG_MAPS, PODS, Api
from tests.unit.apiserver_objects import config_map


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as running:
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(server) as session:
        yield session


def _stored(server: ApiServer) -> list[str]:
    return [found["metadata"]["name"] for found in server.store.list("configmaps", "default")]


async def test_an_error_before_the_effect_changes_nothing_and_ends_after_its_count(api: Api, server: ApiServer) -> None:
    fault = server.faults.on(Fault(FailBefore(503, "ServiceUnavailable", "busy"), path="/configmaps", count=1))
    failed = await api.call("POST", CONFIG_MAPS, config_map("a"))
    assert (failed.code, failed.body["reason"], failed.body["message"]) == (503, "ServiceUnavailable", "busy")
    assert _stored(server) == []
    assert (await api.call("POST", CONFIG_MAPS, config_map("a"))).code == 201
    assert fault.struck == 1


async def test_an_error_after_the_effect_leaves_the_effect(api: Api, server: ApiServer) -> None:
    server.faults.on(Fault(FailAfter(), method="POST", count=1))
    assert (await api.call("POST", CONFIG_MAPS, config_map("a"))).code == 504
    assert _stored(server) == ["a"]
    assert (await api.call("POST", CONFIG_MAPS, config_map("a"))).body["reason"] == "AlreadyExists"


@pytest.mark.parametrize(("effect", "stored"), [(DropBefore(), []), (DropAfter(), ["a"])], ids=["before", "after"])
async def test_a_dropped_connection_answers_nothing(
    api: Api, server: ApiServer, effect: DropBefore | DropAfter, stored: list[str]
) -> None:
    server.faults.on(Fault(effect, count=1))
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.call("POST", CONFIG_MAPS, config_map("a"))
    assert _stored(server) == stored


async def test_a_delay_holds_back_only_what_it_matches(api: Api, server: ApiServer) -> None:
    fault = server.faults.on(Fault(Delay(3600), path="/pods"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await api.get(PODS)
    assert (await api.get(CONFIG_MAPS)).code == 200
    server.faults.off(fault)
    assert (await api.get(PODS)).code == 200


async def test_a_fault_without_a_count_lasts_until_it_is_switched_off(api: Api, server: ApiServer) -> None:
    fault = server.faults.on(Fault(FailBefore(), method="GET"))
    assert [(await api.get(PODS)).code for _ in range(3)] == [500, 500, 500]
    server.faults.off(fault)
    assert (await api.get(PODS)).code == 200


async def test_a_fault_may_strike_one_user_only(api: Api, server: ApiServer) -> None:
    token = server.add_user(User("extender"))
    server.faults.on(Fault(FailBefore(429, "TooManyRequests", "slow down"), user="extender"))
    async with Api(server, token) as other:
        assert (await other.get(PODS)).code == 429
    assert (await api.get(PODS)).code == 200


async def test_a_watch_is_cut_after_the_events_it_may_carry(api: Api, server: ApiServer) -> None:
    server.faults.on(Fault(CutWatch(after_events=2), path="configmaps", count=1))
    path = f"{CONFIG_MAPS}?watch=true&resourceVersion={server.store.version}"
    async with api.watch(path) as watch:
        for name in "abc":
            server.registry.put(config_map(name))
        assert await watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        with pytest.raises(aiohttp.ClientError):
            await watch.next()
    async with api.watch(path) as watch:
        assert len(await watch.take(3)) == 3


async def test_a_cut_strikes_watches_and_no_other_request(api: Api, server: ApiServer) -> None:
    fault = server.faults.on(Fault(CutWatch()))
    assert (await api.get(CONFIG_MAPS)).code == 200
    assert fault.struck == 0


async def test_a_stopped_server_refuses_connections_and_comes_back_as_it_was(api: Api, server: ApiServer) -> None:
    server.registry.put(config_map("a"))
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={server.store.version}") as watch:
        await server.stop()
        with pytest.raises(aiohttp.ClientError):
            await watch.next()
    assert not server.is_serving
    with pytest.raises(aiohttp.ClientConnectorError):
        await api.get(CONFIG_MAPS)
    await server.start()
    assert [item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS)).body["items"]] == ["a"]


async def test_clear_switches_everything_off(api: Api, server: ApiServer) -> None:
    server.faults.on(Fault(FailBefore()))
    server.faults.on(Fault(DropBefore()))
    server.faults.clear()
    assert (await api.get(PODS)).code == 200


async def test_a_connection_that_breaks_under_a_watch_or_a_body_is_no_defect(
    api: Api, server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={server.store.version}") as watch:
        # The watcher is about to write when its connection is aborted under it.
        server.registry.put(config_map("a"))
        await server.stop()
        with pytest.raises(aiohttp.ClientError):
            await watch.next()
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
    await writer.drain()
    writer.transport.abort()
    await reader.read()
    assert (await api.get(CONFIG_MAPS)).code == 200
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
