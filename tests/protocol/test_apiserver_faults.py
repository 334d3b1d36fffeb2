from __future__ import annotations

import aiohttp
import pytest

from gcushare_playground.apiserver import (
    ApiServer,
    CutWatch,
    DropAfter,
    DropBefore,
    FailAfter,
    FailBefore,
    Fault,
)
from tests.protocol.apiserver_client import CONFIG_MAPS, Api
from tests.unit.apiserver_objects import config_map


def _stored(server: ApiServer) -> list[str]:
    return [found["metadata"]["name"] for found in server.store.list("configmaps", "default")]


async def test_an_error_before_the_effect_changes_nothing_and_ends_after_its_count(api: Api, server: ApiServer) -> None:
    fault = server.faults.on(Fault(FailBefore(503, "ServiceUnavailable", "busy"), path="/configmaps", count=1))
    failed = await api.call("POST", CONFIG_MAPS, config_map("a"))
    assert (failed.code, failed.body["reason"], failed.body["message"]) == (503, "ServiceUnavailable", "busy")
    assert _stored(server) == []
    assert (await api.call("POST", CONFIG_MAPS, config_map("a"))).code == 201
    assert fault.hits == 1


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
