from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import aiohttp
import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig, Deletion
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.protocol.apiserver_client import CONFIG_MAPS, PODS, Api
from tests.unit.apiserver_objects import config_map, pod

MAPS = BY_NAME["configmaps"]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    config = ApiServerConfig(history_limit=10, bookmark_interval_s=0.05, runs_controllers=False)
    async with ApiServer(config) as running:
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(server) as session:
        yield session


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


async def test_a_page_of_a_forgotten_moment_is_gone(api: Api, server: ApiServer) -> None:
    for name in "abc":
        server.registry.put(config_map(name))
    token = (await api.get(f"{CONFIG_MAPS}?limit=1")).body["metadata"]["continue"]
    for value in range(11):
        _set(server, "a", str(value))
    answer = await api.get(f"{CONFIG_MAPS}?limit=1&continue={token}")
    assert (answer.code, answer.body["reason"]) == (410, "Expired")


async def test_a_list_from_the_cache_knows_no_pages(api: Api, server: ApiServer) -> None:
    for name in "abc":
        server.registry.put(config_map(name))
    assert len(_names((await api.get(f"{CONFIG_MAPS}?limit=1&resourceVersion=0")).body)) == 3


async def test_a_list_at_a_version_of_the_future_times_out(api: Api) -> None:
    answer = await api.get(f"{CONFIG_MAPS}?resourceVersion=99999")
    assert (answer.code, answer.body["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


async def test_items_of_a_list_carry_no_kind_of_their_own(api: Api, server: ApiServer) -> None:
    server.registry.put(config_map("a"))
    found = (await api.get(CONFIG_MAPS)).body
    assert (found["kind"], "kind" in found["items"][0]) == ("ConfigMapList", False)


async def test_a_watch_tells_what_happens_after_its_version(api: Api, server: ApiServer) -> None:
    server.registry.put(config_map("before"))
    version = (await api.get(CONFIG_MAPS)).body["metadata"]["resourceVersion"]
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}") as watch:
        server.registry.put(config_map("a"))
        _set(server, "a", "1")
        server.registry.delete(MAPS, Key("default", "a"), Deletion())
        assert await watch.take(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize("version", ["", "&resourceVersion=0"], ids=["no version", "version zero"])
async def test_a_watch_from_nowhere_begins_with_what_exists(api: Api, server: ApiServer, version: str) -> None:
    server.registry.put(config_map("a"))
    async with api.watch(f"{CONFIG_MAPS}?watch=true{version}") as watch:
        assert await watch.take(1) == [("ADDED", "a")]
        server.registry.put(config_map("b"))
        assert await watch.take(1) == [("ADDED", "b")]


async def test_a_watch_resumes_from_the_version_of_its_last_event(api: Api, server: ApiServer) -> None:
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={server.store.version}") as watch:
        server.registry.put(config_map("a"))
        seen = await watch.next()
    server.registry.put(config_map("b"))
    last = seen["object"]["metadata"]["resourceVersion"]
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={last}") as watch:
        assert await watch.take(1) == [("ADDED", "b")]


async def test_an_object_enters_and_leaves_a_selection_by_being_modified(api: Api, server: ApiServer) -> None:
    server.registry.put(config_map("a"))
    query = f"?watch=true&labelSelector={quote('on=yes')}&resourceVersion={server.store.version}"
    async with api.watch(CONFIG_MAPS + query) as watch:
        _set(server, "a", "1", on="yes")
        _set(server, "a", "2", on="yes")
        _set(server, "a", "3", on="no")
        events = [await watch.next() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    left = events[-1]["object"]
    assert left["data"] == {"value": "2"}, "what leaves is shown as it was last seen"
    assert left["metadata"]["resourceVersion"] == str(server.store.version)


async def test_a_watch_of_one_node_follows_pods_as_they_are_bound(api: Api, server: ApiServer) -> None:
    server.registry.put(pod("p"))
    query = f"?watch=true&fieldSelector={quote('spec.nodeName=n1')}&resourceVersion={server.store.version}"
    async with api.watch(f"/api/v1/pods{query}") as watch:
        await api.create(f"{PODS}/p/binding", {"target": {"kind": "Node", "name": "n1"}})
        assert await watch.take(1) == [("ADDED", "p")]


async def test_bookmarks_move_a_quiet_watch_forward(api: Api, server: ApiServer) -> None:
    start = server.store.version
    async with api.watch(f"{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={start}") as watch:
        server.registry.put(pod("elsewhere"))
        while int((event := await watch.next())["object"]["metadata"]["resourceVersion"]) <= start:
            assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "ConfigMap"


async def test_initial_events_end_with_a_marked_bookmark(api: Api, server: ApiServer) -> None:
    server.registry.put(config_map("a"))
    query = "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    async with api.watch(CONFIG_MAPS + query) as watch:
        assert await watch.take(1) == [("ADDED", "a")]
        bookmark = await watch.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


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


async def test_a_watch_that_falls_behind_the_history_is_told_410_in_the_middle(api: Api, server: ApiServer) -> None:
    server.registry.put(config_map("a"))
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={server.store.version}") as watch:
        for value in range(10):
            _set(server, "a", str(value))
        assert len(await watch.take(10)) == 10, "as many as the history holds are delivered"
        for value in range(11):
            _set(server, "a", f"more {value}")
        event = await watch.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert await watch.next() is None


async def test_an_open_watch_can_be_expired_or_cut(api: Api, server: ApiServer) -> None:
    query = f"{CONFIG_MAPS}?watch=true&resourceVersion={server.store.version}"
    async with api.watch(query) as watch:
        assert server.expire_watches("pods") == 0
        assert server.expire_watches("configmaps") == 1
        assert (await watch.next())["object"]["code"] == 410
    async with api.watch(query) as watch:
        assert server.cut_watches() == 1
        with pytest.raises(aiohttp.ClientError):
            await watch.next()


async def test_a_watch_ends_in_time_and_one_that_nobody_reads_is_let_go(api: Api, server: ApiServer) -> None:
    async with api.watch(f"{CONFIG_MAPS}?watch=true&timeoutSeconds=1&resourceVersion={server.store.version}") as watch:
        assert await watch.next() is None
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={server.store.version}"):
        assert server.open_watches == 1
    await server.until_watches(0)


async def test_tables_are_listed_and_watched(api: Api, server: ApiServer) -> None:
    server.registry.put(pod("p"))
    listed = (await api.get(PODS, Accept=TABLE)).body
    assert listed["kind"] == "Table"
    assert listed["rows"][0]["cells"][:4] == ["p", "0/1", "Pending", "0"]
    async with api.watch(f"{PODS}?watch=true", Accept=TABLE) as watch:
        event = await watch.next()
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
    assert event["object"]["rows"][0]["object"]["metadata"]["name"] == "p"


async def test_metadata_alone_can_be_asked_for(api: Api, server: ApiServer) -> None:
    server.registry.put(config_map("a", secret="x"))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    found = (await api.get(CONFIG_MAPS, Accept=accept)).body
    assert found["kind"] == "PartialObjectMetadataList"
    assert "data" not in found["items"][0]


async def test_a_restart_keeps_objects_and_expires_older_watches(api: Api, server: ApiServer) -> None:
    server.registry.put(config_map("a"))
    start, url = server.store.version - 1, server.url
    await server.restart()
    assert server.url == url
    assert _names((await api.get(CONFIG_MAPS)).body) == ["a"]
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={start}") as watch:
        assert (await watch.next())["object"]["code"] == 410


async def test_many_watchers_see_every_change_in_order(api: Api, server: ApiServer) -> None:
    path = f"{CONFIG_MAPS}?watch=true&resourceVersion={server.store.version}"

    async def follow() -> list[tuple[str, str]]:
        async with api.watch(path) as watch:
            ready.release()
            return await watch.take(8)

    ready = asyncio.Semaphore(0)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow(), name=f"watcher-{i}") for i in range(20)]
        for _ in tasks:
            await ready.acquire()
        for name in "abcdefgh":
            server.registry.put(config_map(name))
    assert {tuple(task.result()) for task in tasks} == {tuple(("ADDED", name) for name in "abcdefgh")}
