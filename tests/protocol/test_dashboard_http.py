"""The page over real HTTP: its answers, its stream of changes, and who gets them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from gcushare.scheduler_extender.dashboard.dashboard_settings import Access, DashboardSettings
from gcushare_playground.apiserver import ApiServer
from tests.browser.page_rig import PageRig
from tests.extender_objects import a_node, a_pod, on_card
from tests.protocol.event_stream import DEADLINE_S, Events
from tests.protocol.extender_rig import ExtenderRig, extender_settings
from tests.protocol.page_reviews import EXTENDER, JANE, extender_client


@pytest.fixture
async def rig() -> AsyncIterator[PageRig]:
    async with PageRig() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def cluster(http: aiohttp.ClientSession, rig: PageRig, **headers: str) -> Any:
    async with http.get(f"{rig.url}api/cluster", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def test_every_answer_carries_the_policy_or_is_an_error_document(
    rig: PageRig, http: aiohttp.ClientSession
) -> None:
    for path, status in (("", 200), ("api/cluster", 200), ("api/explain/enflame/a/b", 404), ("static/x/main.js", 404)):
        async with http.get(rig.url + path) as answer:
            assert answer.status == status, path
            if status == 200:
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"], path
                assert answer.headers["X-Content-Type-Options"] == "nosniff", path
                assert "Content-Encoding" in answer.headers, path
                assert (answer.headers["Cache-Control"] == "no-store") == (path == "api/cluster")
            else:
                assert (await answer.json())["status"] == status, path


async def test_a_reader_that_was_cut_goes_on_where_it_was(rig: PageRig, http: aiohttp.ClientSession) -> None:
    rig.see(a_node("a", 16))
    mark = (await cluster(http, rig))["mark"]
    async with http.get(f"{rig.url}api/changes", headers={"Last-Event-ID": mark}) as answer:
        assert answer.content_type == "text/event-stream"
        rig.see(a_pod("x", 4, node="a", record=on_card(0, 4)))
        first = await Events(answer).until("changes")
    rig.see(a_pod("y", 2, node="a", record=on_card(0, 2)))

    async with http.get(f"{rig.url}api/changes", headers={"Last-Event-ID": first["id"]}) as answer:
        (node,) = json.loads((await Events(answer).until("changes"))["data"])["nodes"]
    assert node["used"] == 6


async def test_a_reader_with_another_replicas_mark_begins_again(rig: PageRig, http: aiohttp.ClientSession) -> None:
    rig.see(a_node("a", 16))
    async with http.get(f"{rig.url}api/changes", headers={"Last-Event-ID": "deadbeef.3"}) as answer:
        events = Events(answer)
        assert (await events.until("reset"))["data"] == "{}"
        rig.see(a_pod("x", 4, node="a", record=on_card(0, 4)))
        assert (await events.next())["event"] == "changes"


async def test_a_replica_that_loses_its_lease_says_so(rig: PageRig, http: aiohttp.ClientSession) -> None:
    rig.see(a_node("a", 16))
    mark = (await cluster(http, rig))["mark"]
    async with http.get(f"{rig.url}api/changes", headers={"Last-Event-ID": mark}) as answer:
        events = Events(answer)
        assert json.loads((await events.next())["data"])["leads"] is True
        rig.leadership.is_leader, rig.leadership.holder = False, "extender-1_1_ef"
        rig.see(a_pod("x", 4, node="a", record=on_card(0, 4)))

        reported = json.loads((await events.until("replica"))["data"])
        assert (reported["leads"], reported["holder"]) == (False, "extender-1_1_ef")


async def test_readers_beyond_the_limit_are_asked_to_come_back(http: aiohttp.ClientSession) -> None:
    async with PageRig(readers=1) as rig, http.get(f"{rig.url}api/changes") as first:
        await Events(first).next()
        async with http.get(f"{rig.url}api/changes") as second:
            assert second.status == 503
            assert "Retry-After" in second.headers
            assert "1 reader" in (await second.json())["error"]


async def test_streams_end_when_serving_ends(http: aiohttp.ClientSession) -> None:
    async with PageRig() as rig:
        answer = await http.get(f"{rig.url}api/changes")
        await Events(answer).next()
    async with asyncio.timeout(DEADLINE_S):
        rest = await answer.content.read()
    assert b"event: reset" in rest


async def test_before_the_first_lists_the_page_is_there_and_the_cluster_is_not(
    rig: PageRig, http: aiohttp.ClientSession
) -> None:
    rig.serving.is_synced = False
    async with http.get(rig.url) as page, http.get(f"{rig.url}api/cluster") as answer:
        assert page.status == 200
        assert answer.status == 503
        assert "not read yet" in (await answer.json())["error"]


async def test_nothing_can_be_changed(rig: PageRig, http: aiohttp.ClientSession) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("", "api/cluster", "api/changes", "api/explain/enflame/a/b"):
            async with http.request(method, rig.url + path) as answer:
                assert answer.status == 405, (method, path)


async def test_off_means_that_there_is_no_page(http: aiohttp.ClientSession) -> None:
    settings = replace(extender_settings(), dashboard=DashboardSettings(dashboard=Access.OFF, page_port=0))
    async with ExtenderRig(settings) as rig, http.get(f"{rig.replica.page_url}/dashboard/") as answer:
        assert answer.status == 404


async def test_the_page_is_open_and_a_users_token_opens_the_cluster_by_the_two_reviews_alone(
    reviewing: ApiServer, http: aiohttp.ClientSession
) -> None:
    async with extender_client(reviewing) as client, PageRig(access=Access.TOKEN, client=client) as rig:
        rig.see(a_node("a", 16))
        async with http.get(rig.url) as page, http.get(f"{rig.url}api/cluster") as refused:
            assert (page.status, refused.status) == (200, 401)
            assert refused.headers["WWW-Authenticate"] == 'Bearer realm="gcushare"'
        document = await cluster(http, rig, Authorization=f"Bearer {reviewing.add_user(JANE)}")
    assert [node["name"] for node in document["nodes"]] == ["a"]
    assert reviewing.requests.used(EXTENDER.name) == {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
