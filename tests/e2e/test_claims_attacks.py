"""What claims hold on a real control plane, and what the author of pods in one namespace can do to them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gcushare.cluster.gather_snapshot import gather
from gcushare.cluster.reader import Reader
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CLAIMED_RESOURCE, CLAIMED_UNITS
from gcushare.wire.contracts import EXTENDER
from gcushare.wire.dra.claim_names import ClaimSize
from gcushare.wire.pods import MACHINE_UID, MIRROR
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.charts import needs_helm
from tests.e2e.assets import need_binaries
from tests.e2e.author import KEPT, PODS, Author, make_author
from tests.e2e.claims import (
    CLAIMS,
    TEMPLATES,
    claim,
    claim_node,
    claim_template,
    count_used,
    create_each,
    install,
    install_extender,
    slices_of,
    start_controller_manager,
    start_extender,
)
from tests.e2e.claims import SLICES as SLICE_OBJECTS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import JsonObject, pod
from tests.e2e.waiting import until

pytestmark = needs_helm

GIB = 2**30
NAMES = ENFLAME.claims
DRA = "/apis/resource.k8s.io/v1"
SLICES = f"{DRA}/resourceslices"
IN_DEFAULT = f"{DRA}/namespaces/default"
TEMPLATE = "gcu-memory-6"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def author(control_plane: ControlPlane) -> AsyncIterator[Author]:
    """A node of two cards, everything of the charts, and someone who may edit the namespace ``default``."""
    need_binaries("kube-scheduler")
    await install(control_plane)
    await install_extender(control_plane)
    await start_controller_manager(control_plane)
    await create_each(control_plane.client, NODE_OBJECTS, [claim_node("n1")])
    await create_each(control_plane.client, SLICE_OBJECTS, slices_of("n1", 2, 16))
    await control_plane.start_scheduler(None)
    await start_extender(control_plane)
    yield await make_author(control_plane)


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def emptied(author: Author) -> AsyncIterator[None]:
    """Delete what a test made."""
    yield
    await author.let_go()
    client = author.cluster.client

    async def left() -> str:
        found = []
        for resource in (POD_OBJECTS, CLAIMS, TEMPLATES):
            for each in await client.list_all(resource):
                meta = each["metadata"]
                if meta["namespace"] == "default":
                    found.append(meta["name"])
                    await client.delete(resource, meta["name"], namespace="default", grace_s=0)
        return ", ".join(found)

    await until(left, "all is deleted", deadline_s=60)


def user_of(claim: str, name: str) -> JsonObject:
    body = pod(name, 0, resourceClaims=[{"name": "card", "resourceClaimName": claim}])
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "card"}]}
    return body


async def decided(author: Author, name: str) -> str:
    """Wait until a pod is bound, or was refused by the scheduler; returns its node, or "" if it was refused."""
    node = ""

    async def missing() -> str:
        nonlocal node
        found = await author.cluster.client.get(POD_OBJECTS, name, namespace="default")
        node = found["spec"].get("nodeName", "")
        said = [each.get("message", "") for each in found["status"].get("conditions", ())]
        return "" if node or any("cannot allocate" in each for each in said) else str(found["status"])

    await until(missing, f"{name} is decided", deadline_s=60)
    return node


async def used(author: Author) -> list[int]:
    return sorted(count_used(await author.cluster.client.list_all(CLAIMS)).values())


async def test_the_author_cannot_write_what_the_scheduler_and_the_driver_write(author: Author) -> None:
    result = {"request": "card", "driver": NAMES.driver, "pool": "n1", "device": "card-0"}
    status = {"allocation": {"devices": {"results": [{**result, "consumedCapacity": {"memory": "1Ki"}}]}}}
    made = await author.make(f"{IN_DEFAULT}/resourceclaims", claim("forged", "16Gi") | {"status": status})
    assert made.get("status", {}) == {}
    one = f"{IN_DEFAULT}/resourceclaims/forged"
    changed = await author.send("PATCH", one, {"status": status})
    assert changed[1].get("status", {}) == {}
    assert (await author.send("PATCH", f"{one}/status", {"status": status}))[0] == 403
    spec = claim("forged", "1Gi")["spec"]
    assert (await author.send("PATCH", one, {"spec": spec}))[0] == 422
    a_slice = {"driver": NAMES.driver, "nodeName": "n1", "pool": {"name": "n1", "resourceSliceCount": 1}}
    assert (await author.send("POST", SLICES, {"metadata": {"name": "mine"}, "spec": a_slice}))[0] == 403
    assert (await author.send("POST", f"{DRA}/deviceclasses", {"metadata": {"name": "mine"}, "spec": {}}))[0] == 403
    label = {"metadata": {"labels": {"gcushare.io/claims": "disabled"}}}
    assert (await author.send("PATCH", "/api/v1/namespaces/default", label))[0] == 403


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("0", id="0"),
        pytest.param("-4Gi", id="negative"),
        pytest.param("1e30", id="10^30, which kube-scheduler turns into 0"),
        pytest.param(str(2**63 - 1), id="2^63-1, which kube-scheduler turns into -8Ei"),
        pytest.param("2Ei", id="2Ei"),
    ],
)
async def test_an_amount_that_the_scheduler_reckons_wrongly_is_refused(author: Author, asked: str) -> None:
    odd = claim("odd", asked)
    alternative = {"name": "a", **odd["spec"]["devices"]["requests"][0]["exactly"]}
    either = {"devices": {"requests": [{"name": "card", "firstAvailable": [alternative]}]}}
    for path, body in (
        ("resourceclaims", odd),
        ("resourceclaims", {**odd, "spec": either}),
        ("resourceclaimtemplates", {**odd, "spec": {"spec": odd["spec"]}}),
    ):
        status, answer = await author.send("POST", f"{IN_DEFAULT}/{path}", body)
        assert status == 422, answer
        assert "more than 0 and at most 1Ei is accepted" in answer["message"]


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        pytest.param("500m", [GIB], id="a fraction of a byte"),
        pytest.param("1500Mi", [2 * GIB], id="between two units"),
        pytest.param("17Gi", [], id="more than a card"),
        pytest.param("1Ei", [], id="the most"),
        pytest.param("", [16 * GIB], id="none, which is a whole card"),
    ],
)
async def test_an_amount_of_a_claim_that_no_policy_wrote_takes_whole_units_or_nothing(
    author: Author, asked: str, held: list[int]
) -> None:
    await author.make(f"{IN_DEFAULT}/resourceclaims", claim("odd", asked))
    await author.make(PODS, user_of("odd", "odd"))
    node = await decided(author, "odd")
    assert await used(author) == held
    assert bool(node) == bool(held)


async def test_admin_access_takes_a_namespace_that_an_administrator_labelled(author: Author) -> None:
    status, made = await author.send("POST", f"{IN_DEFAULT}/resourceclaims", claim("a", adminAccess=True))
    assert status in (403, 422), made
    assert "admin" in made["message"]


async def test_several_cards_are_different_cards(author: Author) -> None:
    body = pod("wide", 24)
    body["metadata"]["annotations"] = {"gcushare.io/cards": "2"}
    await author.make(PODS, body)
    assert await decided(author, "wide") == "n1"
    assert await used(author) == [12 * GIB, 12 * GIB]


async def test_a_whole_card_is_never_given_together_with_shares_of_it(author: Author) -> None:
    for name, body in (("whole", pod("whole", 0, whole=1)), ("share", pod("share", 10))):
        await author.make(PODS, body)
        assert await decided(author, name) == "n1"
    await author.make(PODS, pod("late", 0, whole=1))
    assert await decided(author, "late") == ""
    assert await used(author) == [10 * GIB, 16 * GIB]


async def test_two_pods_of_one_claim_hold_its_share_once(author: Author) -> None:
    await author.make(PODS, pod("victim", 6))
    assert await decided(author, "victim") == "n1"
    found = await author.cluster.client.get(POD_OBJECTS, "victim", namespace="default")
    (entry,) = found["status"]["resourceClaimStatuses"]
    await author.make(PODS, user_of(entry["resourceClaimName"], "guest"))
    assert await decided(author, "guest") == "n1"
    assert await used(author) == [6 * GIB]


@pytest.mark.parametrize("finalizers", [[], KEPT], ids=["plain", "held by a finalizer"])
async def test_a_pod_past_the_scheduler_holds_no_card_and_adds_nothing_to_claim(
    author: Author, finalizers: list[str]
) -> None:
    """One names the author's own allocated claim, one a claim that no node has; a mirror can name none."""
    for name, size in (("own", "6Gi"), ("never", "16Gi"), ("next", "10Gi"), ("last", "16Gi")):
        await author.make(f"{IN_DEFAULT}/resourceclaims", claim(name, size))
    await author.make(PODS, user_of("own", "real"))
    assert await decided(author, "real") == "n1"
    for name in ("own", "never"):
        past = user_of(name, f"past-{name}")
        past["spec"]["nodeName"] = "n1"
        past["metadata"] |= {"annotations": {MIRROR: "x", MACHINE_UID: "x"}, "finalizers": finalizers}
        status, answer = await author.send("POST", PODS, past)
        assert (status, "static pods do not support resource claims" in answer["message"]) == (422, True)
        del past["metadata"]["annotations"]
        await author.make(PODS, past)
        await author.send("DELETE", f"{PODS}/past-{name}", {"gracePeriodSeconds": 0})
    for name in ("next", "last"):
        await author.make(PODS, user_of(name, name))
        assert await decided(author, name) == "n1"
    assert await used(author) == [16 * GIB, 16 * GIB]
    snapshot = await gather(Reader(author.cluster.client), ENFLAME)
    assert sorted(card.held for card in snapshot.ledger.nodes["n1"].cards.values()) == [16, 16]


async def test_the_policys_annotations_are_written_over_and_bring_nothing(author: Author) -> None:
    forged = {CLAIMED_RESOURCE: "x", CLAIMED_UNITS: "main=9999"}
    body = pod("a", 3)
    body["metadata"]["annotations"] = dict(forged)
    made = await author.make(PODS, body)
    assert made["metadata"]["annotations"] == {CLAIMED_RESOURCE: ENFLAME.memory_resource, CLAIMED_UNITS: "main=3"}
    body = pod("b", 0)
    body["metadata"]["annotations"] = dict(forged)
    made = await author.make(PODS, body)
    assert "resourceClaims" not in made["spec"]
    assert await decided(author, "a") == "n1"
    assert await used(author) == [3 * GIB]


async def test_a_template_that_somebody_replaced_is_ours_again_once_no_finalizer_holds_it(author: Author) -> None:
    client, url = author.cluster.client, f"{IN_DEFAULT}/resourceclaimtemplates"
    forged = claim_template(ClaimSize(16))
    labels = {"app.kubernetes.io/managed-by": EXTENDER}
    forged["metadata"] = {"name": TEMPLATE, "labels": labels, "finalizers": ["example.com/held"]}
    await author.make(url, forged)

    async def deleting() -> str:
        found = await client.get(TEMPLATES, TEMPLATE, namespace="default")
        return "" if "deletionTimestamp" in found["metadata"] else "it stands"

    await until(deleting, "the forged template is deleted", deadline_s=60)
    await author.make(PODS, pod("waits", 6))
    assert (await author.send("PATCH", f"{url}/{TEMPLATE}", {"metadata": {"finalizers": None}}))[0] == 200

    async def ours() -> str:
        found = await client.list_all(TEMPLATES)
        wanted = claim_template(ClaimSize(6))["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"]
        asked = [each["spec"]["spec"]["devices"]["requests"][0]["exactly"].get("capacity") for each in found]
        return "" if asked == [wanted] else str(found)

    await until(ours, "the template is the extender's", deadline_s=90)
    assert await requests_to_templates(author) < 20


async def requests_to_templates(author: Author) -> int:
    """Creations and deletions of templates that the API server has answered."""
    async with author.cluster.http.get(f"{author.cluster.url}/metrics") as answer:
        text = await answer.text()
    counted = [
        line
        for line in text.splitlines()
        if line.startswith("apiserver_request_total{")
        and 'resource="resourceclaimtemplates"' in line
        and ('verb="POST"' in line or 'verb="DELETE"' in line)
    ]
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in counted))
