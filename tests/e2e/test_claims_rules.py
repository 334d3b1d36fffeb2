"""Who may share cards, and how much of them, holds for claims as for resources; and LimitRanges in between."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NAMESPACES, Resource
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CLAIMED_UNITS
from gcushare.wire.dra.claim_names import ClaimSize
from tests.charts import needs_helm
from tests.e2e.claims import OPTED_IN, claim, claim_template, install, install_policies, opt_in, try_object
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import JsonObject, pod
from tests.e2e.test_claims_admission import container, made_of, memory, template_of
from tests.e2e.waiting import until

pytestmark = needs_helm

MEMORY, COUNT = ENFLAME.memory_resource, ENFLAME.count_resource
LIMIT_RANGES: Resource[JsonObject] = Resource("api/v1", "limitranges", dict)
RULES = (
    "admission.namespaces.exclude={shut}",
    "admission.namespaces.requireLabels.team=cards",
    "admission.pods.maxUnits.enflame=16",
    "admission.pods.refuseMalformed=true",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    await install(control_plane, *RULES)
    await install_policies(control_plane, ("namespaces", "requests", "pod-records"), *RULES)
    for name, labels in {"default": {"team": "cards"}, "shut": {"team": "cards"}, "unlabelled": {}}.items():
        await opt_in(control_plane.client, name)
        await control_plane.client.patch(NAMESPACES, name, Patch(PatchKind.MERGE, {"metadata": {"labels": labels}}))

    async def missing() -> str:
        status, answer = await try_object(control_plane, "pods", pod("probe", 1), "shut")
        return "" if status == 422 else f"a pod of an excluded namespace is answered {answer}"

    await until(missing, "the policies hold", deadline_s=60)
    yield control_plane


def of_template(units: int) -> JsonObject:
    """A pod that names a template of ours itself, as the policy would have written it."""
    entry = f"gcushare-{ENFLAME.claims.template_prefix}"
    name = ClaimSize(units).template_name(ENFLAME.claims.template_prefix)
    return pod("own", 0, resourceClaims=[{"name": entry, "resourceClaimTemplateName": name}])


@pytest.mark.parametrize(
    ("plural", "body"),
    [
        pytest.param("pods", pod("a", 1), id="a pod that asks for the resource"),
        pytest.param("pods", of_template(1), id="a pod that names a template"),
        pytest.param("resourceclaims", claim("c", "1Gi"), id="a claim"),
        pytest.param("resourceclaimtemplates", claim_template(ClaimSize(1)), id="a template"),
    ],
)
async def test_a_namespace_that_may_not_share_cards_gets_no_claim_either(
    cluster: ControlPlane, plural: str, body: JsonObject
) -> None:
    refused = {"shut": "namespace shut may not share cards", "unlabelled": "needs the label team=cards"}
    for namespace, words in refused.items():
        status, answer = await try_object(cluster, plural, body, namespace)
        assert (status, words in answer["message"]) == (422, True), answer
    status, answer = await try_object(cluster, plural, body)
    assert status == 201, answer


async def test_whole_cards_are_not_shared_and_free_as_for_resources(cluster: ControlPlane) -> None:
    status, answer = await try_object(cluster, "resourceclaims", claim("c", kind=ENFLAME.claims.whole_class), "shut")
    assert status == 201, answer


@pytest.mark.parametrize(
    ("plural", "within", "beyond"),
    [
        pytest.param("pods", made_of(memory("a", 9), memory("b", 7)), made_of(memory("a", 17)), id="pods"),
        pytest.param(
            "pods", made_of(memory("a", 32), cards="2"), made_of(memory("a", 34), cards="2"), id="of two cards"
        ),
        pytest.param("resourceclaims", claim("c", "16Gi"), claim("c", "17Gi"), id="claims"),
        pytest.param(
            "resourceclaimtemplates", claim_template(ClaimSize(16)), claim_template(ClaimSize(17)), id="templates"
        ),
    ],
)
async def test_no_more_of_a_card_than_the_largest_one_has(
    cluster: ControlPlane, plural: str, within: JsonObject, beyond: JsonObject
) -> None:
    assert (await try_object(cluster, plural, within))[0] == 201
    status, answer = await try_object(cluster, plural, beyond)
    assert (status, "no card of this cluster is larger" in answer["message"]) == (422, True), answer


@pytest.mark.parametrize(
    "change", [{CLAIMED_UNITS: "main=1"}, {CLAIMED_UNITS: None}, {"gcushare.io/claimed-resource": "x"}]
)
async def test_what_a_pod_asked_for_is_not_written_later(cluster: ControlPlane, change: JsonObject) -> None:
    async with cluster.http.post(f"{cluster.url}/api/v1/namespaces/default/pods", json=pod("noted", 4)) as answered:
        assert answered.status in (201, 409), await answered.text()
    url = f"{cluster.url}/api/v1/namespaces/default/pods/noted"
    headers = {"Content-Type": "application/merge-patch+json"}
    for changed, expected in ((change, 422), ({"example.com/own": "x"}, 200)):
        async with cluster.http.patch(url, json={"metadata": {"annotations": changed}}, headers=headers) as answered:
            assert answered.status == expected, await answered.text()


LIMITED = [
    ("max", {"max": {MEMORY: "8"}}),
    ("max-of-the-count-too", {"max": {MEMORY: "8", COUNT: "1"}}),
    ("default-and-max", {"default": {MEMORY: "2"}, "max": {MEMORY: "8"}}),
    ("default-alone", {"default": {MEMORY: "2"}, "defaultRequest": {MEMORY: "2"}}),
]


@pytest.mark.parametrize(("name", "limits"), LIMITED)
async def test_a_limit_range_on_the_resource_blocks_no_pod_and_gives_its_default(
    cluster: ControlPlane, name: str, limits: JsonObject
) -> None:
    # A namespace of its own, because the API server knows a LimitRange of before for a while.
    labels = {"team": "cards", **OPTED_IN}
    await cluster.client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    body = {"kind": "LimitRange", "metadata": {"name": "limits"}, "spec": {"limits": [{"type": "Container", **limits}]}}
    await cluster.client.create(LIMIT_RANGES, body, namespace=name)
    usual = int((limits.get("default") or limits["max"])[MEMORY])
    asked = min(3, usual)
    for asking, total in (
        (made_of(memory("a", asked)), asked),
        (made_of(memory("a", asked), memory("b", 1)), asked + 1),
        (made_of(container("a", {})), usual),
        (made_of(memory("a", asked), container("b", {})), asked + usual),
    ):
        status, made = await try_object(cluster, "pods", asking, name)
        assert status == 201, made["message"]
        assert template_of(made) == f"gcu-memory-{total}"
        assert len(made["spec"]["resourceClaims"]) == 1
        for each in made["spec"]["containers"]:
            left = each["resources"].get("limits", {})
            assert {left.get(resource, "0") for resource in (MEMORY, COUNT)} == {"0"}
            assert len(each["resources"].get("claims", [])) == 1
    status, answer = await try_object(cluster, "pods", made_of(memory("a", 9)), name)
    said = f"maximum {MEMORY} usage per Container is 8" if "max" in limits else "than a LimitRange of namespace"
    assert (status, said in answer["message"]) == (403 if "max" in limits else 422, True), answer
