"""What the extender does for nodes that serve claims, through a real API server."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace

import pytest

from gcushare.core.cards import SERVES_CLAIMS
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.scheduler_extender.claims.claims_settings import ClaimsSettings
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL, STARTUP_TAINT
from gcushare_playground.apiserver import ApiServer, FailBefore, Fault
from tests.api_objects import an_object, find, listed, merge_into
from tests.extender_objects import node_document
from tests.protocol.claims_rig import share
from tests.protocol.extender_rig import ALONE, Replica, extender_settings, running_replica, until

ENABLED = {"gcushare.io/claims": "enabled"}
ELECTION = ElectionSettings(
    lease_name="claims", lease_duration=2.0, lease_renew_deadline=1.0, lease_retry=0.2, lease_namespace="default"
)


@pytest.fixture(autouse=True)
def team(server: ApiServer) -> None:
    server.registry.put(an_object("Namespace", "team", metadata={"labels": ENABLED}))


def replica(server: ApiServer, *, elects: bool = False) -> AbstractAsyncContextManager[Replica]:
    settings = extender_settings(election=ELECTION if elects else ALONE)
    return running_replica(replace(settings, claims=ClaimsSettings(claims=True)), server.url)


def counters(replica: Replica) -> Counter[str]:
    assert replica.extender.claims is not None
    return replica.extender.claims.keeper.counters


def put_pod(server: ApiServer, name: str, units: int, namespace: str = "team") -> None:
    """Create a pod that waits for a claim of so many units."""
    claims = [{"name": "c", "resourceClaimTemplateName": f"gcu-memory-{units}"}]
    spec = {"containers": [{"name": "main", "image": "i"}], "resourceClaims": claims}
    server.registry.put(an_object("Pod", name, namespace, spec=spec))


async def until_templates(server: ApiServer, *units: int) -> None:
    """Wait until the team has a template for each of these amounts, and no other."""
    names = {f"gcu-memory-{each}" for each in units}
    await until(lambda: {each["metadata"]["name"] for each in listed(server, "ResourceClaimTemplate")} == names)


async def test_a_namespace_that_refuses_does_not_hold_up_the_others(server: ApiServer) -> None:
    server.registry.put(an_object("Namespace", "full", metadata={"labels": ENABLED}))
    refusal = FailBefore(403, "Forbidden", "exceeded quota")
    server.faults.on(Fault(refusal, "/namespaces/full/resourceclaimtemplates", "POST"))
    async with replica(server) as extender:
        put_pod(server, "stuck", 5, "full")
        await until(lambda: counters(extender)["failed"] > 0)
        for units in range(1, 20):
            put_pod(server, f"pod-{units}", units)
        await until_templates(server, *range(1, 20))


async def test_a_template_of_somebody_else_is_left_alone_and_the_pod_says_so(server: ApiServer) -> None:
    kind, name = "ResourceClaimTemplate", "gcu-memory-7"
    foreign = server.registry.put(an_object(kind, name, "team", spec={"spec": {"devices": {"requests": []}}}))
    async with replica(server):
        put_pod(server, "seven", 7)
        await until(lambda: "ClaimTemplateNotOurs" in {each["reason"] for each in listed(server, "Event")})
    assert find(server, kind, name, "team")["spec"] == foreign["spec"]


async def test_one_of_two_replicas_works_and_the_other_takes_over(server: ApiServer) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(replica(server, elects=True))
        async with replica(server, elects=True) as second:
            put_pod(server, "one", 1)
            await until_templates(server, 1)
            await until(lambda: sorted(counters(each)["created"] for each in (first, second)) == [0, 1])
        put_pod(server, "two", 2)
        await until_templates(server, 1, 2)


async def test_a_node_has_a_label_by_what_its_claims_hold(server: ApiServer) -> None:
    server.registry.put(node_document("n", 16, modes=(SERVES_CLAIMS,)))

    def level() -> str:
        return str((find(server, "Node", "n")["metadata"].get("labels") or {}).get(CLAIMS_ORDER_LABEL, ""))

    async with replica(server):
        await until(lambda: level() == "4")  # the node is the next to be opened
        result = {"request": "card", "driver": ENFLAME.claims.driver, "pool": "n", **share("card-0", 4)}
        status = {"allocation": {"devices": {"results": [result]}}}
        server.registry.put(an_object("ResourceClaim", "c", "team", spec={}))
        merge_into(server, "ResourceClaim", "c", {"status": status}, "team", status_only=True)
        await until(lambda: level() == "6")  # a quarter of the node is in use


async def test_a_node_that_serves_claims_of_which_the_server_has_none_holds_up_no_other(server: ApiServer) -> None:
    server.faults.on(Fault(FailBefore(404, "NotFound", "no such resource"), "/resourceclaims"))
    async with replica(server) as extender:
        server.registry.put(node_document("ahead", 16, modes=(SERVES_CLAIMS,)))
        await until(lambda: extender.extender.watches.claims.counters["failures"] > 0)
        new = node_document("new", 16)
        new["spec"] = {"taints": [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]}
        server.registry.put(new)
        await until(lambda: not find(server, "Node", "new")["spec"].get("taints"))
