"""A node is moved from resources to claims and back: refused while pods hold cards, and no card is offered twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from gcushare.core.units import GIB
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, PODS
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.dra.claim_names import ClaimSize
from gcushare_playground.picture import allocatable_of, node_of
from gcushare_playground.plans import NodePlan
from tests.charts import needs_helm
from tests.e2e.claims import TEMPLATES, call_extender, claim_template, create_each, install, opt_in
from tests.e2e.claims_side import ClaimsSide, need_cdi, start_controllers
from tests.e2e.control_plane import NODE
from tests.e2e.machine import Machine
from tests.e2e.node_side import real_pod
from tests.e2e.scheduling import Scheduling
from tests.e2e.waiting import until

pytestmark = needs_helm

UNITS = ENFLAME.memory_resource


class Moving(ClaimsSide):
    """One node of one card with both ways of giving it out, by its label."""

    def __init__(self, machine: Machine, scheduling: Scheduling) -> None:
        super().__init__(machine, scheduling, NodePlan(name=NODE, card_bytes=(16 * GIB,)))
        self.offered_twice: list[str] = []

    async def move(self, value: str | None) -> None:
        """Label the node and the namespace as the administrator does."""
        client = self.scheduling.client
        change = {"metadata": {"labels": {SERVE_LABEL: value}}}
        await client.patch(NODES, NODE, Patch(PatchKind.MERGE, change))
        await opt_in(client, "default", opted=value == SERVE_CLAIMS)
        await call_extender(self.scheduling.control_plane, called=value == SERVE_CLAIMS)

    async def delete_pod(self, name: str) -> None:
        await self.scheduling.client.delete(PODS, name, namespace="default", grace_s=1)

    async def until_waiting(self, name: str) -> None:
        """Create a pod, and wait until kube-scheduler has found no room for it."""
        await self.scheduling.create_pods([real_pod(name, 12)])
        await self.scheduling.until_said(name, "FailedScheduling")
        assert node_of(self.scheduling.pod(name)) == ""

    async def record_offers(self) -> None:
        """Record each moment in which the node offers its card in both ways; until cancelled."""
        while True:
            units = allocatable_of(self.scheduling.nodes.objects.get(NODE, {}), UNITS)
            if units and await self.slices() and allocatable_of(self.scheduling.nodes.objects[NODE], UNITS):
                self.offered_twice.append(f"{units} units and a slice")
            await asyncio.sleep(0.05)


@pytest_asyncio.fixture(loop_scope="module")
async def moving(machine: Machine) -> AsyncIterator[Moving]:
    """A node that serves resources, in a cluster whose scheduler asks the extender about both kinds of pod."""
    need_cdi()
    control_plane = machine.control_plane
    async with Scheduling(control_plane, claims=True) as scheduling:
        await install(control_plane)
        await create_each(control_plane.client, TEMPLATES, [claim_template(ClaimSize(12))])
        await start_controllers(control_plane)
        moving = Moving(machine, scheduling)
        await moving.move(None)
        moving.set_health()
        moving.url = await moving.start_plugin()
        await scheduling.start_all()
        await moving.until_allocatable(16)
        recording = asyncio.create_task(moving.record_offers(), name="record offers")
        yield moving
        recording.cancel()
        await asyncio.wait([recording])
        await scheduling.delete_pods(grace_s=1)


async def test_a_node_is_moved_to_claims_and_back(moving: Moving) -> None:
    scheduling = moving.scheduling
    await moving.run_pods(real_pod("by-resource", 12))

    await moving.move(SERVE_CLAIMS)

    async def refused() -> str:
        text = await moving.readiness()
        return "" if "default/by-resource" in text else text

    await until(refused, "the plugin names the pod that holds the card")
    await moving.until_waiting("by-claim")
    assert await moving.slices() == []
    await moving.delete_pod("by-resource")
    await moving.until_started("by-claim")
    assert scheduling.pod("by-claim")["spec"]["resourceClaims"]
    (container,) = scheduling.pod("by-claim")["spec"]["containers"]
    assert ENFLAME.claims.extender_resource in container["resources"]["limits"]
    assert UNITS in scheduling.nodes.objects[NODE]["status"]["allocatable"], "the kubelet still lists the resource"

    await moving.move(None)

    async def held() -> str:
        text = await moving.readiness()
        return "" if "by-claim" in text else text

    await until(held, "the plugin says which claims hold the card")
    await moving.until_waiting("again")
    assert allocatable_of(scheduling.nodes.objects[NODE], UNITS) == 0
    await moving.delete_pod("by-claim")
    await moving.until_running("again")
    await moving.expect_true("again")
    assert moving.offered_twice == []
