"""Claims on a real node: kube-scheduler, kube-controller-manager, kubelet, containerd and our driver."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from gcushare.core.units import GIB
from gcushare.kube.resources import EVENTS, Selector
from gcushare.node.container_environment import CONTAINER_BYTES
from gcushare.vendors import ENFLAME
from gcushare_playground.picture import node_of
from tests.e2e.claims_side import CLAIM_OBJECTS, NAMES, ClaimsSide, claim, claims_side, need_cdi, pod_of
from tests.e2e.machine import Machine
from tests.e2e.waiting import until

VARIABLES = ENFLAME.environment


@pytest_asyncio.fixture(loop_scope="module")
async def side(machine: Machine) -> AsyncIterator[ClaimsSide]:
    """Start driver, controllers and scheduler for one test."""
    need_cdi()
    async with claims_side(machine) as running:
        yield running


async def test_a_container_is_given_its_share_and_leaves_nothing_behind(side: ClaimsSide) -> None:
    await side.run("one", 4)
    (device,) = await side.allocated("one")
    environment = await side.seen("one")
    assert environment[VARIABLES.visible] == device.removeprefix("card-")
    assert environment[VARIABLES.container_units] == "4"
    assert environment[CONTAINER_BYTES] == str(4 * GIB)
    assert side.prepared() == {"one"}
    assert len(side.cdi_files()) == 1
    await side.delete("one")
    assert side.prepared() == set()
    assert side.cdi_files() == []


async def test_shares_fill_a_card_in_use_before_they_open_another(side: ClaimsSide) -> None:
    await side.run("first", 4)
    (fullest,) = await side.allocated("first")

    async def order() -> str:
        listed = await side.listed()
        return "" if listed[0] == fullest else f"{listed}"

    await until(order, "the card in use is listed first")
    await side.run("second", 8)
    assert await side.allocated("second") == [fullest]
    await side.run("third", 8)
    assert await side.allocated("third") != [fullest]


async def test_a_whole_card_and_shares_of_it_exclude_each_other(side: ClaimsSide) -> None:
    await side.run("share", 4)
    (shared,) = await side.allocated("share")
    await side.run("whole", whole=True)
    (whole,) = await side.allocated("whole")
    assert whole != shared
    environment = await side.seen("whole")
    assert environment[VARIABLES.visible] == whole.removeprefix("card-")
    assert VARIABLES.container_units not in environment
    await side.create("second-whole", whole=True)
    await side.create("too-large", 13)
    for name in ("second-whole", "too-large"):
        message = await side.scheduling.until_said(name, "FailedScheduling")
        assert "cannot allocate all claims" in message
        assert node_of(side.scheduling.pod(name)) == ""
    await side.delete("whole")
    await side.until_running("second-whole")


async def test_a_killed_driver_knows_its_claims_when_it_is_back(side: ClaimsSide) -> None:
    await side.run("before", 4)
    await side.driver.kill()
    await side.create("meanwhile", 4)
    await side.scheduling.until_bound("meanwhile")
    await side.start_driver()
    await side.until_running("before", "meanwhile")
    assert side.prepared() == {"before", "meanwhile"}
    assert await side.allocated("before") == await side.allocated("meanwhile")
    await side.delete("before")
    assert side.prepared() == {"meanwhile"}


async def test_a_driver_without_a_readable_checkpoint_finds_its_claims_in_the_cluster(side: ClaimsSide) -> None:
    await side.run("one", 4)
    await side.driver.kill()
    (side.directory / "checkpoint.json").write_text("{broken")
    await side.start_driver()
    assert side.prepared() == {"one"}
    assert (side.directory / "checkpoint.json.unreadable-1").read_text() == "{broken"
    assert len(side.cdi_files()) == 1
    await side.delete("one")
    assert side.prepared() == set()


async def test_a_restarted_kubelet_finds_driver_and_claims_again(side: ClaimsSide) -> None:
    await side.run("before", 4)
    before = {each.metadata.uid for each in await side.slices()}
    await side.machine.kill_kubelet()
    await side.machine.start_kubelet()

    async def renewed() -> str:
        now = {each.metadata.uid for each in await side.slices()}
        return "" if now and not now & before else f"{len(now)} slices, {len(now & before)} of before"

    await until(renewed, "the slices, which a kubelet that starts deletes, are there again")
    await side.run("after", 4)
    assert await side.allocated("before") == await side.allocated("after")
    assert side.prepared() == {"before", "after"}
    await side.delete("before")
    assert side.prepared() == {"after"}


async def test_a_sick_card_takes_no_claims(side: ClaimsSide) -> None:
    await side.run("victim", 4)
    (device,) = await side.allocated("victim")
    index = int(device.removeprefix("card-"))
    side.set_health({index: "it smokes"})

    async def tainted() -> str:
        found = {each.name: each.taints for slices in await side.slices() for each in slices.spec.devices}
        return "" if [taint.key for taint in found[device]] == [f"{NAMES.driver}/sick"] else f"{found[device]}"

    await until(tainted, "the card is tainted")

    await side.run("other", 4)
    assert await side.allocated("other") != [device]


async def test_a_container_with_two_claims_is_refused_and_two_containers_with_one_each_are_not(
    side: ClaimsSide,
) -> None:
    """The kubelet lists a pod's claims before it has the driver prepare them: without that nothing would be refused."""
    for name in ("a", "b", "c", "d"):
        await side.scheduling.client.create(CLAIM_OBJECTS, claim(name, 4), namespace="default")
    both, apart = pod_of("both", "a"), pod_of("apart", "c")
    both["spec"]["resourceClaims"].append({"name": "other", "resourceClaimName": "b"})
    both["spec"]["containers"][0]["resources"]["claims"].append({"name": "other"})
    apart["spec"]["resourceClaims"].append({"name": "other", "resourceClaimName": "d"})
    apart["spec"]["containers"].append(
        apart["spec"]["containers"][0] | {"name": "second", "resources": {"claims": [{"name": "other"}]}}
    )
    await side.scheduling.create_pods([both, apart])
    await side.until_running("apart")

    async def refusal() -> str:
        events = await side.scheduling.client.list_all(EVENTS, Selector(fields="involvedObject.name=both"))
        words = "container 'main' of pod default/both uses the claims default/a and default/b"
        return "" if any(words in event.message for event in events) else str([event.message for event in events])

    await until(refusal, "an event of the pod says why")
    assert side.prepared() == {"c", "d"}
