from __future__ import annotations

from gcushare_playground.apiserver import ApiServer, RbacAuthorizer, User, service_account
from tests.api_objects import an_object, grant
from tests.protocol.apiserver_client import PODS, Api
from tests.unit.apiserver_objects import pod

JANE = User("jane", ("system:authenticated",))
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts"


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
