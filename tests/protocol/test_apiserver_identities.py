from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from gcushare_playground.apiserver import (
    ApiServer,
    ApiServerConfig,
    RbacAuthorizer,
    User,
    make_certificates,
    service_account,
)
from tests.protocol.apiserver_client import PODS, Api
from tests.unit.apiserver_objects import pod

JANE = User("jane", ("system:authenticated",))
RBAC = "rbac.authorization.k8s.io/v1"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as running:
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(server) as session:
        yield session


def _let_jane_list_pods(server: ApiServer) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    server.registry.put({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "r"}, "rules": rules})
    reference, subjects = {"kind": "Role", "name": "r"}, [{"kind": "User", "name": "jane"}]
    binding = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "b"}}
    server.registry.put({**binding, "roleRef": reference, "subjects": subjects})


async def test_an_unknown_token_is_nobody_and_no_token_is_the_administrator(api: Api, server: ApiServer) -> None:
    async with Api(server, "made-up") as stranger:
        assert (await stranger.get(PODS)).code == 401
    assert (await api.get(PODS)).code == 200


async def test_a_server_without_anonymous_access_wants_a_token() -> None:
    async with ApiServer(ApiServerConfig(anonymous=None, runs_controllers=False)) as server:
        async with Api(server) as nobody:
            assert (await nobody.get("/version")).code == 401
        token = server.add_user(JANE)
        async with Api(server, token) as jane:
            assert (await jane.get(PODS)).code == 200
            server.identities.revoke(token)
            assert (await jane.get(PODS)).code == 401


async def test_stored_roles_decide_and_the_record_tells_what_was_needed(server: ApiServer) -> None:
    server.authorizer = RbacAuthorizer(server.store)
    _let_jane_list_pods(server)
    async with Api(server, server.add_user(JANE)) as jane:
        assert (await jane.get(PODS)).code == 200
        refused = await jane.call("POST", PODS, pod())
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    expected = 'User "jane" cannot create resource "pods" in API group "" in the namespace "default"'
    assert expected in refused.body["message"]
    assert server.store.list("pods") == []
    assert server.requests.used("jane") == {("", "pods", "list"), ("", "pods", "create")}
    assert [(a.verb, a.resource) for a in server.requests.refused("jane")] == [("create", "pods")]


async def test_somebody_may_act_as_another_only_where_that_is_allowed(api: Api, server: ApiServer) -> None:
    server.authorizer = RbacAuthorizer(server.store)
    _let_jane_list_pods(server)
    assert (await api.get(PODS, Impersonate_User="jane")).code == 200
    assert (await api.call("POST", PODS, pod(), Impersonate_User="jane")).code == 403
    async with Api(server, server.add_user(JANE)) as jane:
        assert (await jane.get(PODS, Impersonate_User="kubernetes-admin")).code == 403


async def test_access_reviews_answer_as_requests_would_be(api: Api, server: ApiServer) -> None:
    server.authorizer = RbacAuthorizer(server.store)
    _let_jane_list_pods(server)
    root = "/apis/authorization.k8s.io/v1"

    async def is_allowed(verb: str) -> bool:
        wanted = {"verb": verb, "resource": "pods", "namespace": "default"}
        spec = {"user": "jane", "resourceAttributes": wanted}
        answer = await api.create(f"{root}/subjectaccessreviews", {"spec": spec})
        return bool(answer.body["status"]["allowed"])

    assert await is_allowed("list")
    assert not await is_allowed("delete")
    async with Api(server, server.add_user(JANE)) as jane:
        spec = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}
        answer = await jane.create(f"{root}/selfsubjectaccessreviews", {"spec": spec})
        assert answer.body["status"]["allowed"] is True


async def test_a_requested_token_stands_for_the_account_and_the_node_of_its_pod(api: Api, server: ApiServer) -> None:
    server.registry.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "plugin"}})
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
    assert (await api.call("POST", f"{ACCOUNT}/nobody/token", {})).code == 404


async def test_tls_is_spoken_with_certificates_of_ones_own(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "pki")
    assert files.key.stat().st_mode & 0o077 == 0
    async with ApiServer(ApiServerConfig(tls=files, runs_controllers=False)) as server:
        trusting = ssl.create_default_context(cafile=str(files.authority))
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{server.url}/readyz", ssl=trusting) as response:
                assert (response.status, await response.text()) == (200, "ok")
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await session.get(f"{server.url}/readyz")


async def test_a_kubeconfig_names_server_token_and_authority(tmp_path: Path, server: ApiServer) -> None:
    path = server.kubeconfig(tmp_path / "config", JANE, namespace="team")
    document = msgspec.json.decode(path.read_bytes())
    assert path.stat().st_mode & 0o077 == 0
    assert document["clusters"][0]["cluster"] == {"server": server.url}
    assert document["contexts"][0]["context"]["namespace"] == "team"
    assert server.identities.find(document["users"][0]["user"]["token"]) == JANE
