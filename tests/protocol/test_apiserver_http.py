"""The API server double on the wire: pages, watches, roles and tokens."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig, Deletion, RbacAuthorizer, User, service_account
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.api_objects import an_object, grant
from tests.protocol.apiserver_client import CONFIG_MAPS, PODS, Api
from tests.unit.apiserver_objects import config_map, pod

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


JANE = User("jane", ("system:authenticated",))
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts"


async def test_a_stopped_server_keeps_its_port_and_refuses_connections(server: ApiServer) -> None:
    url = server.url
    await server.stop()

    with pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", urlsplit(url).port or 0))
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", urlsplit(url).port)

    await server.start()
    assert server.url == url
    _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    writer.close()


async def test_stored_roles_decide_and_the_record_tells_what_was_needed(server: ApiServer) -> None:
    server.authorizer = RbacAuthorizer(server.store)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    grant(server, {"kind": "User", "name": "jane"}, rules, "lists-pods", "default")
    async with Api(server, server.add_user(JANE)) as jane:
        assert (await jane.get(PODS)).code == 200
        refused = await jane.call("POST", PODS, pod())
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    expected = 'User "jane" cannot create resource "pods" in API group "" in the namespace "default"'
    assert expected in refused.body["message"]
    assert server.store.list("pods") == []
    assert server.requests.used("jane") == {("", "pods", "list"), ("", "pods", "create")}
    assert [(a.verb, a.resource) for a in server.requests.refused("jane")] == [("create", "pods")]


async def test_a_requested_token_stands_for_the_account_and_the_node_of_its_pod(api: Api, server: ApiServer) -> None:
    server.registry.put(an_object("ServiceAccount", "plugin"))
    created = server.registry.put(pod(nodeName="n1"))
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": created["metadata"]["uid"]}
    asked = {"spec": {"boundObjectRef": bound, "expirationSeconds": 600}}
    token = (await api.create(f"{ACCOUNT}/plugin/token", asked)).body["status"]["token"]
    review = await api.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    user = review.body["status"]["user"]
    assert user["username"] == service_account("default", "plugin").name
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["n1"]
    unknown = await api.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "made-up"}})
    assert unknown.body["status"]["authenticated"] is False
    wrong = await api.call("POST", f"{ACCOUNT}/plugin/token", {"spec": {"boundObjectRef": {**bound, "uid": "other"}}})
    assert wrong.code == 409
    assert (await api.call("POST", f"{ACCOUNT}/stranger/token", {})).code == 404
