from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.apiserver.objects import JsonObject
from tests.protocol.apiserver_client import PODS, Api
from tests.unit.apiserver_objects import node, pod


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as running:
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(server) as session:
        yield session


async def _print(pod: JsonObject, container: str) -> str:
    return f"{pod['metadata']['name']}/{container}\nENFLAME_VISIBLE_DEVICES=0\n"


async def test_logs_come_from_the_provider_of_the_pods_node(api: Api, server: ApiServer) -> None:
    server.registry.put(pod(nodeName="n1"))
    server.register_logs("n1", _print)
    assert (await api.get(f"{PODS}/p/log")).body == b"p/main\nENFLAME_VISIBLE_DEVICES=0\n"
    assert (await api.get(f"{PODS}/p/log?tailLines=1")).body == b"ENFLAME_VISIBLE_DEVICES=0\n"
    assert (await api.get(f"{PODS}/p/log?limitBytes=6")).body == b"p/main"
    assert (await api.get(f"{PODS}/p/log?tailLines=0")).body == b""


async def test_logs_come_over_http_from_the_kubelet_that_the_node_names(api: Api, server: ApiServer) -> None:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        return web.Response(text="from the kubelet\n")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    address = [{"type": "InternalIP", "address": "127.0.0.1"}]
    server.registry.put(node("n1", addresses=address, daemonEndpoints={"kubeletEndpoint": {"Port": port}}))
    server.registry.put(pod(nodeName="n1"))
    assert (await api.get(f"{PODS}/p/log?container=main")).body == b"from the kubelet\n"
    assert asked == ["/containerLogs/default/p/main"]
    await runner.cleanup()
    unreachable = await api.get(f"{PODS}/p/log")
    assert (unreachable.code, "containerLogs" in unreachable.body["message"]) == (500, True)


async def test_what_has_no_logs_says_why(api: Api, server: ApiServer) -> None:
    two = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    server.registry.put(pod("unbound"))
    server.registry.put(pod("two", containers=two, nodeName="n1"))
    server.registry.put(node("n1"))
    for path, code, message in (
        ("missing/log", 404, "not found"),
        ("unbound/log", 400, "does not have a host assigned"),
        ("two/log", 400, "choose one of: [a b]"),
        ("two/log?container=c", 400, "container c is not valid"),
        ("two/log?container=a", 500, "no log provider"),
        ("two/log?container=a&previous=true", 400, "previous terminated container"),
    ):
        answer = await api.get(f"{PODS}/{path}")
        assert (answer.code, message in answer.body["message"]) == (code, True), answer.body
