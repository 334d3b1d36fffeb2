"""Pods as they were written for the memory resource become claims, on kube-apiserver with the chart's policies."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.requests import ContainerKind, effective_request
from gcushare.kube.resources import NAMESPACES, Resource
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import CLAIMED_UNITS
from gcushare.wire.dra.claim_names import ClaimSize
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.objects import copy_of
from gcushare_playground.apiserver.registry import Registry
from gcushare_playground.apiserver.storage import Storage
from gcushare_playground.picture import POD_OBJECTS
from tests.charts import containers, needs_helm
from tests.e2e.claims import (
    CLAIMS,
    OPTED_IN,
    TEMPLATES,
    call_extender,
    claim_template,
    install,
    opt_in,
    start_controller_manager,
    try_pod,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import JsonObject, pod
from tests.e2e.waiting import until

pytestmark = needs_helm

MEMORY = ENFLAME.memory_resource
ENTRY = "gcushare-gcu-memory"
DEPLOYMENTS: Resource[JsonObject] = Resource("apis/apps/v1", "deployments", dict)
QUOTAS: Resource[JsonObject] = Resource("api/v1", "resourcequotas", dict)
EVENTS: Resource[JsonObject] = Resource("api/v1", "events", dict)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    await install(control_plane)
    await control_plane.client.create(NAMESPACES, {"metadata": {"name": "old"}})
    controllers = ("deployment", "replicaset", "resourcequota", "resourceclaim")
    await start_controller_manager(control_plane, [f"{each}-controller" for each in controllers])
    yield control_plane


def container(name: str, limits: dict[str, str], **more: Any) -> JsonObject:
    return {"name": name, "image": "example.invalid/image:1", "resources": {"limits": limits}, **more}


def memory(name: str, units: int | str, **more: Any) -> JsonObject:
    return container(name, {MEMORY: str(units)}, **more)


def made_of(*containers: JsonObject, inits: tuple[JsonObject, ...] = (), **annotations: str) -> JsonObject:
    """Write a pod; annotations are named without their prefix, with underscores."""
    options = {f"gcushare.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    body: JsonObject = {"metadata": {"name": "a", "annotations": options}, "spec": {"containers": list(containers)}}
    if inits:
        body["spec"]["initContainers"] = list(inits)
    return body


async def admit(cluster: ControlPlane, body: JsonObject) -> JsonObject:
    status, made = await try_pod(cluster, body)
    assert status == 201, made.get("message")
    return made


def admit_by_the_double(body: JsonObject) -> JsonObject:
    """What the playground's API server makes of the same pod.

    Raises:
        ApiFailure: it refuses the pod.
    """
    registry = Registry(Storage())
    registry.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": OPTED_IN}})
    return registry.put({**copy_of(body), "apiVersion": "v1", "kind": "Pod"})


def claimed_part(made: JsonObject) -> JsonObject:
    """The part of a pod that the policies change."""
    spec = made["spec"]
    return {
        "annotations": made["metadata"]["annotations"],
        "claims": spec["resourceClaims"],
        "affinity": spec["affinity"],
        "resources": [each["resources"] for each in containers(spec)],
    }


def template_of(made: JsonObject) -> str:
    (name,) = [
        each["resourceClaimTemplateName"] for each in made["spec"].get("resourceClaims", ()) if each["name"] == ENTRY
    ]
    return str(name)


def users_of(made: JsonObject) -> list[str]:
    """The containers that use our claim."""
    return [each["name"] for each in containers(made["spec"]) if {"name": ENTRY} in each["resources"].get("claims", ())]


@pytest.mark.parametrize(
    ("body", "template", "users", "units"),
    [
        pytest.param(made_of(memory("main", 4)), "gcu-memory-4", "main", "main=4", id="the manual's"),
        pytest.param(
            made_of(memory("a", 3), memory("b", 2), container("c", {})), "gcu-memory-5", "a b", "a=3,b=2", id="two"
        ),
        pytest.param(made_of(memory("a", 3), memory("b", 0)), "gcu-memory-3", "a", "a=3", id="one of them 0"),
        pytest.param(
            made_of(memory("a", 3), inits=(memory("i", 8),)), "gcu-memory-8", "i a", "i=8,a=3", id="a larger init"
        ),
        pytest.param(
            made_of(memory("a", 3), inits=(memory("i", 2), memory("s", 4, restartPolicy="Always"))),
            *("gcu-memory-7", "i s a", "i=2,s=4,a=3"),
            id="a sidecar",
        ),
        pytest.param(
            made_of(memory("a", 3), inits=(memory("s", 4, restartPolicy="Always"), memory("i", 5))),
            *("gcu-memory-9", "s i a", "s=4,i=5,a=3"),
            id="an init container with a sidecar",
        ),
        pytest.param(
            made_of(memory("a", 24), cards="2"), "gcu-memory-12-cards-2", "a", "a=24", id="several cards"
        ),
        pytest.param(made_of(memory("a", "4k")), "gcu-memory-4000", "a", "a=4000", id="a suffix"),
        pytest.param(
            made_of(container("a", {MEMORY: "2", ENFLAME.count_resource: "1", "cpu": "1"})),
            *("gcu-memory-2", "a", "a=2"),
            id="with a count and cpu",
        ),
    ],
)  # fmt: skip
async def test_a_request_becomes_a_claim(
    cluster: ControlPlane, body: JsonObject, template: str, users: str, units: str
) -> None:
    made = await admit(cluster, body)
    assert template_of(made) == template
    assert users_of(made) == users.split()
    assert made["metadata"]["annotations"][CLAIMED_UNITS] == units
    assert not [each for each in containers(made["spec"]) if MEMORY in str(each)]
    assert claimed_part(admit_by_the_double(body)) == claimed_part(made)


async def test_the_sum_in_the_name_is_the_one_that_the_rest_of_gcushare_computes(cluster: ControlPlane) -> None:
    chance = random.Random(29)
    for _ in range(60):
        kinds = [chance.choice([ContainerKind.INIT, ContainerKind.SIDECAR]) for _ in range(chance.randrange(5))]
        kinds += [ContainerKind.APP] * chance.randrange(1, 4)
        amounts = [(kind, chance.randrange(9)) for kind in kinds]
        parts = [
            memory(f"c{number}", units, **({"restartPolicy": "Always"} if kind is ContainerKind.SIDECAR else {}))
            for number, (kind, units) in enumerate(amounts)
        ]
        inits = tuple(part for part, kind in zip(parts, kinds, strict=True) if kind is not ContainerKind.APP)
        made = await admit(cluster, made_of(*parts[len(inits) :], inits=inits))
        total = effective_request(amounts)
        if total:
            assert template_of(made) == ClaimSize(total).template_name(ENFLAME.claims.template_prefix), amounts
        else:
            assert "resourceClaims" not in made["spec"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(made_of(memory("a", "1e30")), 'container "a" asks for .*: 1e30; a whole number', id="10^30"),
        pytest.param(made_of(memory("a", 10**9 + 1)), "1000000001; a whole number from 0 to 1000000000", id="too much"),
        pytest.param(made_of(memory("a", 10**9), memory("b", 1)), "1000000001 together", id="too much together"),
        pytest.param(made_of(memory("a", 4), cards="0"), 'cards is "0"; a number from 1 to 16', id="no cards"),
        pytest.param(made_of(memory("a", 4), cards="two"), 'cards is "two"; a number', id="cards in letters"),
        pytest.param(made_of(memory("a", 5), cards="2"), "asks for 5 .*, which 2 cards cannot share", id="uneven"),
        pytest.param(made_of(memory("a", 5), use_cards="0"), 'use-cards is "0", which a claim cannot', id="use"),
        pytest.param(made_of(memory("a", 5), avoid_cards="0"), 'avoid-cards is "0", which', id="avoid"),
        pytest.param(made_of(memory("a", 5), memory_limit="9"), 'memory-limit is "9", which', id="limit"),
        pytest.param(made_of(memory("a", 5), card_policy="spread"), 'card-policy is "spread", which', id="policy"),
        pytest.param(
            made_of(memory("a", 5), container("b", {ENFLAME.whole_card_resource: "1"})),
            "one of both is accepted: ask for memory or for whole cards",
            id="and a whole card",
        ),
        pytest.param(
            made_of(container("a", {MEMORY: "5", ENFLAME.count_resource: "2"})), "only 1 is accepted", id="a count of 2"
        ),
        pytest.param(pod("a", 5, nodeName="n"), 'spec.nodeName is "n", but claims are allocated by', id="a node"),
        pytest.param(
            pod("a", 5, resourceClaims=[{"name": ENTRY, "resourceClaimName": "mine"}]),
            f'an entry "{ENTRY}", a name reserved for .*: rename it',
            id="a claim of the same name",
        ),
    ],
)
async def test_what_a_claim_cannot_hold_is_refused_with_what_to_do(
    cluster: ControlPlane, body: JsonObject, said: str
) -> None:
    status, answer = await try_pod(cluster, body)
    assert status == 422
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(answer["message"])
    with pytest.raises(ApiFailure):
        admit_by_the_double(body)


@pytest.mark.parametrize(
    ("limits", "requests", "said"),
    [
        pytest.param("1.5", None, "must be an integer", id="a fraction"),
        pytest.param("-1", None, "must be greater than or equal to 0", id="negative"),
        pytest.param("4", "3", "must be equal to enflame.com/gcu-memory limit", id="unequal"),
        pytest.param(None, "3", "Limit must be set for non overcommitable", id="without a limit"),
    ],
)
async def test_what_kubernetes_refuses_it_refuses_as_ever(
    cluster: ControlPlane, limits: str | None, requests: str | None, said: str
) -> None:
    body = pod("a", 1)
    body["spec"]["containers"][0]["resources"] = {
        **({"limits": {MEMORY: limits}} if limits else {}),
        **({"requests": {MEMORY: requests}} if requests else {}),
    }
    status, answer = await try_pod(cluster, body)
    assert status == 422
    assert said in answer["message"]


@pytest.mark.parametrize(
    ("body", "namespace"),
    [
        pytest.param(pod("a", 0), "default", id="no cards"),
        pytest.param(pod("a", 0, whole=1), "default", id="a whole card"),
        pytest.param(made_of(memory("a", 0)), "default", id="0 units"),
        pytest.param(pod("a", 4, vendor=ALIYUN), "default", id="cards of another vendor"),
        pytest.param(pod("a", 4), "old", id="a namespace without the label"),
    ],
)
async def test_other_pods_stay_as_they_are(cluster: ControlPlane, body: JsonObject, namespace: str) -> None:
    status, made = await try_pod(cluster, body, namespace)
    assert status == 201, made
    assert "resourceClaims" not in made["spec"]
    assert "affinity" not in made["spec"]
    asked = body["spec"]["containers"][0]["resources"]["limits"]
    assert made["spec"]["containers"][0]["resources"].get("limits", {}) == asked


async def test_a_pods_own_claims_and_affinity_are_kept(cluster: ControlPlane) -> None:
    own = {"weight": 7, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    part = memory("main", 2)
    part["resources"]["claims"] = [{"name": "net"}]
    body = made_of(part, compute_share="proportional")
    body["spec"] |= {
        "resourceClaims": [{"name": "net", "resourceClaimName": "mine"}],
        "affinity": {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": zone,
                "preferredDuringSchedulingIgnoredDuringExecution": [own],
            },
        },
    }
    made = await admit(cluster, body)
    assert [each["name"] for each in made["spec"]["resourceClaims"]] == ["net", ENTRY]
    assert made["spec"]["containers"][0]["resources"]["claims"] == [{"name": "net"}, {"name": ENTRY}]
    affinity = made["spec"]["affinity"]["nodeAffinity"]
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"] == zone
    assert affinity["preferredDuringSchedulingIgnoredDuringExecution"][0] == own
    assert len(affinity["preferredDuringSchedulingIgnoredDuringExecution"]) == 10
    assert made["metadata"]["annotations"]["gcushare.io/compute-share"] == "proportional"


async def test_a_pod_that_wants_nodes_spread_is_not_drawn_to_the_fullest(cluster: ControlPlane) -> None:
    made = await admit(cluster, made_of(memory("a", 2), node_policy="spread"))
    assert template_of(made) == "gcu-memory-2"
    assert "affinity" not in made["spec"]


async def test_the_pods_of_a_workload_get_claims_and_the_workload_stays_as_it_is(cluster: ControlPlane) -> None:
    client, labels = cluster.client, {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [memory("main", 3)]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    made = await client.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, namespace="default")
    limits = made["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert limits == {"limits": {MEMORY: "3"}}

    async def missing() -> str:
        named = [template_of(each) for each in await client.list_all(POD_OBJECTS)]
        return "" if named == ["gcu-memory-3"] * 2 else str(named)

    await until(missing, "two pods name a template", deadline_s=60)


async def test_the_extender_is_called_by_a_resource_that_counts_the_pods_units_once(cluster: ControlPlane) -> None:
    mark = ENFLAME.claims.extender_resource
    sidecar = memory("s", 4, restartPolicy="Always")
    await call_extender(cluster, called=True)
    try:
        for body in (
            made_of(container("c", {}), memory("a", 3), memory("b", 4)),
            made_of(memory("a", 3), inits=(sidecar,)),
        ):
            spec = (await admit(cluster, body))["spec"]
            found = [each["resources"] for each in containers(spec) if mark in each["resources"].get("limits", {})]
            assert [(each["limits"], each["requests"]) for each in found] == [({mark: "7"}, {mark: "7"})]
            assert "affinity" not in spec
    finally:
        await call_extender(cluster, called=False)


async def test_a_quota_counts_claims_and_no_longer_the_resource(cluster: ControlPlane) -> None:
    client = cluster.client
    await opt_in(client, "counted")
    devices = f"{ENFLAME.claims.memory_class}.deviceclass.resource.k8s.io/devices"
    hard = {f"requests.{MEMORY}": "4", devices: "1"}
    await client.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace="counted")

    async def is_counted() -> str:
        found = await client.get(QUOTAS, "q", namespace="counted")
        return "" if found.get("status", {}).get("used") else "no usage yet"

    await until(is_counted, "the quota is counted", deadline_s=60)
    await client.create(TEMPLATES, claim_template(ClaimSize(5)), namespace="counted")
    for name in ("one", "two"):
        await client.create(POD_OBJECTS, pod(name, 5), namespace="counted")

    async def refused() -> str:
        events = [each for each in await client.list_all(EVENTS) if each["metadata"]["namespace"] == "counted"]
        said = [each.get("message", "") for each in events]
        return "" if any("exceeded quota: q" in text and devices in text for text in said) else str(said)

    await until(refused, "the second claim is refused", deadline_s=60)
    claims = [each for each in await client.list_all(CLAIMS) if each["metadata"]["namespace"] == "counted"]
    assert len(claims) == 1
