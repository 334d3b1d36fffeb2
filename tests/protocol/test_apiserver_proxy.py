"""Requests that the API server double hands on to pods and Services."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from gcushare_playground.apiserver import ApiServer, ApiServerConfig, RbacAuthorizer, User
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.protocol.apiserver_client import Api
from tests.unit.apiserver_objects import pod

PODS, SERVICES = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/services"


async def echo(request: web.BaseRequest) -> web.Response:
    body = await request.text()
    headers = {"X-Own": "kept", "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
    seen = "with" if "Authorization" in request.headers else "without"
    return web.Response(
        text=f"{request.method} {request.path_qs} {seen} credentials {body}", status=202, headers=headers
    )


@pytest.fixture
async def port() -> AsyncIterator[int]:
    runner = web.ServerRunner(web.Server(echo))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture
async def server(port: int) -> AsyncIterator[ApiServer]:
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as running:
        containers = [{"name": "main", "image": "i", "ports": [{"containerPort": port}]}]
        running.registry.put(pod(labels={"app": "p"}, containers=containers, nodeName="n1"))

        def run(obj: JsonObject) -> JsonObject:
            return {**obj, "status": {"phase": "Running", "podIP": "127.0.0.1"}}

        running.registry.rewrite(BY_NAME["pods"], Key("default", "p"), run)
        head = {"apiVersion": "v1", "metadata": {"name": "s", "namespace": "default"}}
        running.registry.put({**head, "kind": "Service", "spec": {"ports": [{"name": "web", "port": 80}]}})
        subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "web", "port": port}]}
        running.registry.put({**head, "kind": "Endpoints", "subsets": [subset]})
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(server, server.add_user(User("someone"))) as session:
        yield session


async def test_a_pod_is_asked_at_the_port_named_or_its_first(api: Api, port: int) -> None:
    answer = await api.get(f"{PODS}/p/proxy")
    assert answer.body == b"GET / without credentials "
    for name in (f"p:{port}", f"http:p:{port}", "p"):
        answer = await api.get(f"{PODS}/{name}/proxy/a/b?c=d%26e")
        assert (answer.code, answer.body) == (202, b"GET /a/b?c=d%26e without credentials ")
    assert answer.headers["X-Own"] == "kept"
    # The clock of whoever answered, as through kube-apiserver.
    assert answer.headers["Date"] == "Thu, 01 Jan 2026 00:00:00 GMT"


async def test_a_service_is_asked_where_its_endpoints_are(api: Api) -> None:
    for name in ("s:80", "s:web", "s"):
        assert (await api.get(f"{SERVICES}/{name}/proxy/")).body == b"GET / without credentials "


async def test_a_body_is_handed_on(api: Api) -> None:
    answer = await api.call("POST", f"{PODS}/p/proxy/x", {"a": 1})
    assert answer.body == b'POST /x without credentials {"a":1}'


async def test_nobody_behind_it_is_unavailable(api: Api, server: ApiServer) -> None:
    server.registry.put(pod("new"))
    for path, words in (
        (f"{PODS}/new/proxy/", "no address yet"),
        (f"{PODS}/p:1/proxy/", "error trying to reach service"),
        (f"{SERVICES}/s:81/proxy/", 'no endpoints available for service "s:81"'),
    ):
        answer = await api.get(path)
        assert (answer.code, answer.body["reason"]) == (503, "ServiceUnavailable")
        assert words in answer.body["message"]


async def test_what_is_not_there_is_not_found_and_a_malformed_name_refused(api: Api) -> None:
    assert (await api.get(f"{PODS}/other/proxy/")).code == 404
    assert (await api.get(f"{SERVICES}/other/proxy/")).code == 404
    assert (await api.get(f"{PODS}/ftp:p:1/proxy/")).code == 400
    assert (await api.get("/api/v1/namespaces/default/configmaps/p/proxy/")).code == 404


async def test_handing_on_is_a_right_of_its_own(api: Api, server: ApiServer) -> None:
    server.authorizer = RbacAuthorizer(server.store)
    answer = await api.get(f"{PODS}/p/proxy/")
    assert (answer.code, "pods/proxy" in answer.body["message"]) == (403, True)
    (refused,) = server.requests.refused("someone")
    assert (refused.verb, refused.full_resource) == ("get", "pods/proxy")
