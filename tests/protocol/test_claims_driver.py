"""The claims driver over its real wire: the kubelet's calls, registration, slices and its own port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.cards import SERVES_CLAIMS, Health, Inventory
from gcushare.core.units import GIB
from gcushare.node.node_settings import OtherSystems
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.nodes import decode_inventory
from gcushare_playground.apiserver.faults import Delay, Fault
from gcushare_playground.kubelet.dra import ClaimRef, DraKubelet
from tests.api_objects import an_object, delete, merge_into
from tests.neighbours import read_objects
from tests.protocol.claims_rig import LABELS, NAMES, ClaimsRig, share
from tests.protocol.node_rig import NODE, SICK


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[ClaimsRig]:
    async with ClaimsRig() as running:
        await running.start()
        yield running


async def test_a_claim_is_prepared_and_unprepared_and_each_call_may_be_repeated(rig: ClaimsRig) -> None:
    claim = rig.allocate("one", share("card-1", 4))
    answers = [(await rig.kubelet.prepare(claim))[claim.uid] for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    (device,) = answers[0].devices
    assert (device.pool_name, device.device_name, list(device.request_names)) == (NODE, "card-1", ["card"])
    assert device.share_id == "b" * 36
    assert list(device.cdi_device_ids) == [f"{NAMES.driver}/claim={claim.uid}"]
    for _ in range(2):
        assert await rig.kubelet.unprepare(claim) == {claim.uid: ""}
    assert list((rig.root / "cdi").iterdir()) == []


async def test_a_kubelet_that_knows_no_version_of_ours_is_reported(rig: ClaimsRig) -> None:
    async with DraKubelet(rig.root, known="v2.DRAPlugin") as newer:
        await newer.find_driver()
    why = "the kubelet refused the driver: none of ['v1.DRAPlugin']"
    assert rig.problem("registration").startswith(why)


async def test_one_claim_that_cannot_be_prepared_keeps_no_other_back(rig: ClaimsRig) -> None:
    good = rig.allocate("good", share("card-0", 4))
    elsewhere = rig.allocate("elsewhere", share("card-0", 4, pool="node-2"))
    gone = ClaimRef("no-such-uid", "gone")
    answers = await rig.kubelet.prepare(elsewhere, gone, good)
    assert answers[good.uid].error == ""
    assert answers[elsewhere.uid].error == (
        "claim default/elsewhere: device 'card-0' is in pool 'node-2', and this node serves 'node-1' alone"
    )
    assert answers[gone.uid].error == "claim default/gone: the claim does not exist any more; delete the pod"


async def test_a_driver_that_ends_takes_its_sockets_along_and_knows_its_claims_when_it_is_back(rig: ClaimsRig) -> None:
    claim = rig.allocate("one", share("card-0", 4))
    first = await rig.kubelet.prepare(claim)
    await rig.end_program()
    assert list((rig.root / "plugins_registry").iterdir()) == []
    assert not (rig.directory / "dra.sock").exists()
    assert len(rig.slices()) == 1, "the kubelet deletes them if no driver comes back"
    await rig.start()
    assert await rig.kubelet.prepare(claim) == first
    await rig.api.stop()
    assert await rig.kubelet.prepare(claim) == first, "a prepared claim needs no API server"
    assert await rig.kubelet.unprepare(claim) == {claim.uid: ""}


@pytest.mark.slow
async def test_a_removed_socket_is_served_again(rig: ClaimsRig) -> None:
    socket = rig.root / "plugins_registry" / f"{NAMES.driver}-reg.sock"
    socket.unlink()
    await rig.until(socket.exists, "the registration socket is there again")
    await rig.until_registered()
    claim = rig.allocate("one", share("card-0", 4))
    assert (await rig.kubelet.prepare(claim))[claim.uid].error == ""


@pytest.mark.slow
async def test_a_second_driver_waits_until_the_first_has_ended(rig: ClaimsRig) -> None:
    async with rig.another() as other:
        await other.start(until_published=False)
        why = f"another driver, {NAMES.driver}, serves"
        await other.until(lambda: other.problem("registration").startswith(why), "it says why it waits")
        assert rig.app.observed.problems() == {}
        await rig.end_program()
        waiting = "the kubelet has not registered the driver yet"
        await other.until(lambda: other.app.observed.registration.problem == waiting, "it serves")


@pytest.mark.slow
async def test_slices_follow_sick_cards_cordons_and_their_deletion(rig: ClaimsRig) -> None:
    assert list(rig.devices()) == ["card-0", "card-1"]

    def taints(device: str) -> list[str]:
        return [taint["key"] for taint in rig.devices()[device].get("taints", [])]

    rig.write_cards({1: SICK})
    sick = f"{NAMES.driver}/sick"
    await rig.until(lambda: taints("card-1") == [sick], "card 1 is tainted")
    rig.annotate_node(ENFLAME.cordon_annotation, "0")
    cordoned = f"{NAMES.driver}/cordoned"
    await rig.until(lambda: taints("card-0") == [cordoned], "card 0 is tainted")
    uids = {each["metadata"]["uid"] for each in rig.slices()}
    rig.delete_slices()
    await rig.until(
        lambda: len(rig.slices()) == 1 and not {each["metadata"]["uid"] for each in rig.slices()} & uids,
        "the slices are there again",
    )


async def test_the_card_in_use_is_listed_first_and_nothing_is_written_while_the_order_stays(rig: ClaimsRig) -> None:
    first, second = rig.allocate("one", share("card-1", 4)), rig.allocate("two", share("card-1", 4))
    await rig.kubelet.prepare(first)
    await rig.until(lambda: next(iter(rig.devices())) == "card-1", "the card in use comes first")
    await rig.until(lambda: rig.app.observed.publisher.is_current, "the slices are written")
    versions = [each["metadata"]["resourceVersion"] for each in rig.slices()]
    await rig.kubelet.prepare(second)
    assert rig.app.observed.publisher.is_current
    assert [each["metadata"]["resourceVersion"] for each in rig.slices()] == versions


async def test_what_a_card_that_is_held_whole_has_more_than_then_is_offered_to_no_other_claim(rig: ClaimsRig) -> None:
    claim = rig.allocate("whole", share("card-0", 16))
    asked = {"name": "card", "exactly": {"deviceClassName": ENFLAME.claims.whole_class}}
    merge_into(rig.api, "ResourceClaim", "whole", {"spec": {"devices": {"requests": [asked]}}})
    assert (await rig.kubelet.prepare(claim))[claim.uid].error == ""
    rig.write_cards({0: {"memory": 24 * GIB}, 1: {"memory": 24 * GIB}})
    await rig.until(lambda: rig.devices()["card-1"]["capacity"]["memory"]["value"] == "24Gi", "the free card has grown")
    assert rig.devices()["card-0"]["capacity"]["memory"]["value"] == "16Gi"


async def test_nothing_is_published_while_the_node_is_deleted(rig: ClaimsRig) -> None:
    delete(rig.api, "Node", NODE)
    await rig.until(lambda: not rig.app.observed.publisher.is_current, "the driver has seen it")
    rig.delete_slices()  # as Kubernetes collects what the Node owns
    rig.write_cards({1: SICK})
    found = rig.app.observed.inventory
    await rig.until(lambda: (it := found()) and it.cards[1].health is Health.UNHEALTHY, "it goes on with its cards")
    assert rig.slices() == []
    back = rig.api.registry.put(an_object("Node", NODE, metadata={"labels": LABELS}))
    await rig.until(lambda: bool(rig.slices()), "the slices are back with the Node")
    (owner,) = rig.slices()[0]["metadata"]["ownerReferences"]
    assert owner["uid"] == back["metadata"]["uid"]


@pytest.mark.slow
async def test_the_node_gets_the_inventory_that_all_readers_know(rig: ClaimsRig) -> None:
    def published() -> Inventory | None:
        text = rig.node()["metadata"].get("annotations", {}).get(ENFLAME.inventory_annotation)
        return decode_inventory(text) if text is not None else None

    await rig.until(lambda: published() is not None, "the annotation is there")
    found = published()
    assert found is not None
    assert (found.modes, found.units_by_card) == ((SERVES_CLAIMS,), {0: 16, 1: 16})
    rig.write_cards({1: SICK})
    await rig.until(lambda: (read := published()) is not None and not read.cards[1].is_usable, "card 1 is sick")
    rig.annotate_node(ENFLAME.inventory_annotation, None)
    await rig.until(lambda: published() is not None, "it is written again")


def offers(rig: ClaimsRig, units: str) -> None:
    """Have the kubelet count so many units of the device plugin on the Node."""
    rig.set_status("Node", NODE, allocatable={ENFLAME.memory_resource: units})


async def test_nothing_is_offered_while_a_device_plugin_is_registered_even_if_no_pod_has_its_units() -> None:
    """A pod could be given units at any moment: the node has to stop counting them first."""
    async with ClaimsRig() as rig:
        plugins_own = "what the plugin wrote"
        rig.annotate_node(ENFLAME.inventory_annotation, plugins_own)
        offers(rig, "32")
        await rig.start(until_published=False)
        await rig.until(lambda: "still offers enflame.com/gcu-memory" in rig.problem("cards"), "it says so")
        assert rig.slices() == []
        found = rig.node()["metadata"]["annotations"][ENFLAME.inventory_annotation]
        assert found == plugins_own, "it has its pods' unit"
        offers(rig, "0")
        await rig.until(lambda: bool(rig.slices()), "the slices are published")
        offers(rig, "32")
        await rig.until(lambda: rig.slices() == [], "they go if a device plugin registers again")


@pytest.mark.slow
async def test_an_unreadable_checkpoint_is_made_of_the_claims_in_the_cluster(rig: ClaimsRig) -> None:
    claim = rig.allocate("one", share("card-0", 4))
    await rig.kubelet.prepare(claim)
    await rig.end_program()
    (rig.directory / "checkpoint.json").write_text("{")
    await rig.start()
    assert set(rig.app.observed.prepared.claims) == {claim.uid}
    assert (rig.directory / "checkpoint.json.unreadable-1").read_text() == "{"
    await rig.event("CheckpointUnreadable")


async def test_status_metrics_and_health_tell_what_is_prepared(rig: ClaimsRig) -> None:
    await rig.kubelet.prepare(rig.allocate("one", share("card-0", 4)))
    document = await rig.status()
    assert document["problems"] == {}
    assert [each["claim"] for each in document["claims"]] == ["default/one"]
    assert (await rig.get("/healthz"))[0] == (await rig.get("/readyz"))[0] == 200
    _, metrics = await rig.get("/metrics")
    assert 'gcushare_claims_prepared_claims{node="node-1",vendor="enflame"} 1.0' in metrics
    assert 'gcushare_claims_call_seconds_count{call="NodePrepareResources",outcome="ok"} 1.0' in metrics
    assert "gcushare_card_granted_bytes{" in metrics


async def test_a_slice_that_another_program_writes_for_our_driver_is_deleted(rig: ClaimsRig) -> None:
    pool = {"name": NODE, "generation": 99, "resourceSliceCount": 1}
    device = {"name": "card-0", "capacity": {"memory": {"value": "999Gi"}}, "allowMultipleAllocations": True}
    spec = {"driver": NAMES.driver, "nodeName": NODE, "pool": pool, "devices": [device]}
    rig.api.registry.put(an_object("ResourceSlice", "forged", spec=spec))
    await rig.until(lambda: "forged" not in {each["metadata"]["name"] for each in rig.slices()}, "it is deleted")
    await rig.until(lambda: rig.app.observed.publisher.is_current, "our slices stand")
    assert all(each["spec"]["pool"]["generation"] > 99 for each in rig.slices())


async def test_a_container_with_two_claims_of_ours_is_refused(rig: ClaimsRig) -> None:
    first, second, third = (rig.allocate(name, share("card-0", 4)) for name in ("a", "b", "c"))
    rig.claims_of = {"one": ["a", "b"], "two": ["c", "network"]}
    answers = await rig.kubelet.prepare(first, second, third)
    assert answers[third.uid].error == "", "claims of other drivers are not ours to count"
    for claim in (first, second):
        assert answers[claim.uid].error == (
            f"claim default/{claim.name}: container 'main' of pod default/one uses the claims default/a and default/b, "
            "and a container sees the cards of one claim alone: ask for all of its cards in one claim, or use the "
            "claims in different containers"
        )
    rig.claims_of["later"] = ["c", "a"]
    assert "default/a and default/c" in (await rig.kubelet.prepare(first))[first.uid].error, "c is prepared already"
    rig.claims_of.clear()
    assert (await rig.kubelet.prepare(first))[first.uid].error == ""


async def test_a_use_that_ends_while_it_is_prepared_leaves_nothing_prepared(rig: ClaimsRig) -> None:
    claim = rig.allocate("one", share("card-0", 4))
    late = rig.api.faults.on(Fault(Delay(0.5), path="/resourceclaims/one$"))
    preparing = asyncio.create_task(rig.kubelet.prepare(claim))
    await rig.until(lambda: late.hits > 0, "the driver asks for the claim")
    assert await rig.kubelet.unprepare(claim) == {claim.uid: ""}
    await preparing
    assert rig.app.observed.prepared.claims == {}
    assert list((rig.root / "cdi").iterdir()) == []


async def test_a_claim_that_is_allocated_again_without_an_end_of_its_first_use_gets_its_new_card(
    rig: ClaimsRig,
) -> None:
    claim = rig.allocate("one", share("card-0", 4))
    first = await rig.kubelet.prepare(claim)
    moved = {"request": "card", "driver": NAMES.driver, "pool": NODE, **share("card-1", 8)}
    rig.set_status("ResourceClaim", claim.name, allocation={"devices": {"results": [moved]}})
    second = await rig.kubelet.prepare(claim)
    assert [each.device_name for each in first[claim.uid].devices] == ["card-0"]
    assert [each.device_name for each in second[claim.uid].devices] == ["card-1"]


def put_neighbour(rig: ClaimsRig, name: str) -> None:
    node, *others = read_objects(name)
    merge_into(rig.api, "Node", NODE, {"metadata": node["metadata"]})
    rig.set_status("Node", NODE, **node["status"])
    for each in others:
        rig.api.registry.put(each)


def own_slices(rig: ClaimsRig) -> list[dict[str, Any]]:
    return [each for each in rig.slices() if each["spec"]["driver"] == rig.vendor.claims.driver]


@pytest.mark.parametrize(
    ("name", "vendor", "words"),
    [
        ("enflame-gcushare", ENFLAME, "Enflame's gcushare 3.6 (enflame.com/shared-gcu 12)"),
        ("kai", ALIYUN, "a device plugin still offers nvidia.com/gpu on this node"),
        ("nvidia-dra", ALIYUN, "NVIDIA's DRA driver (ResourceSlices of gpu.nvidia.com)"),
    ],
)
async def test_each_known_system_is_named_and_no_slice_published(name: str, vendor: Vendor, words: str) -> None:
    async with ClaimsRig(vendor=vendor) as rig:
        put_neighbour(rig, name)
        await rig.start(until_published=False)
        await rig.until(lambda: words in rig.problem("cards"), "the system is named")
        assert own_slices(rig) == []


async def test_the_slices_come_when_the_other_system_has_gone() -> None:
    async with ClaimsRig(vendor=ALIYUN) as rig:
        put_neighbour(rig, "nvidia-dra")
        await rig.start(until_published=False)
        await rig.until(lambda: "NVIDIA's DRA" in rig.problem("cards"), "it stands back")
        rig.delete_slices()
        await rig.until(lambda: bool(own_slices(rig)), "ours are published")


async def test_an_admin_who_divided_the_cards_has_both() -> None:
    async with ClaimsRig(other_systems=OtherSystems.ALLOW) as rig:
        put_neighbour(rig, "enflame-gcushare")
        await rig.start()
        assert own_slices(rig)
