from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig, Deletion
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.protocol.apiserver_client import CONFIG_MAPS, Api
from tests.unit.apiserver_objects import config_map

MAPS = BY_NAME["configmaps"]


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    config = ApiServerConfig(history_limit=10, bookmark_interval_s=0.05, runs_controllers=False)
    async with ApiServer(config) as running:
        yield running


def _set(server: ApiServer, name: str, value: str, **labels: str) -> None:
    def mutate(obj: JsonObject) -> JsonObject:
        obj["data"] = {"value": value}
        obj["metadata"]["labels"] = labels
        return obj

    server.registry.update(MAPS, Key("default", name), mutate)


def _names(answer: JsonObject) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


async def test_pages_show_one_moment_while_the_collection_changes(api: Api, server: ApiServer) -> None:
    for name in "abcde":
        server.registry.put(config_map(name))
    first = (await api.get(f"{CONFIG_MAPS}?limit=2")).body
    assert (_names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
    server.registry.delete(MAPS, Key("default", "d"), Deletion())
    server.registry.put(config_map("c2"))
    second = (await api.get(f"{CONFIG_MAPS}?limit=2&continue={first['metadata']['continue']}")).body
    third = (await api.get(f"{CONFIG_MAPS}?limit=2&continue={second['metadata']['continue']}")).body
    assert (_names(second), _names(third)) == (["c", "d"], ["e"])
    assert "continue" not in third["metadata"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }


async def test_a_watch_from_before_the_history_gets_410_as_its_only_event(api: Api, server: ApiServer) -> None:
    server.registry.put(config_map("a"))
    start = server.store.version
    for value in range(11):
        _set(server, "a", str(value))
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={start}") as watch:
        event = await watch.next()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await watch.next() is None
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={start + 1}") as watch:
        assert len(await watch.take(10)) == 10, "one version later nothing is lost"
