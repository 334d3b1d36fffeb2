"""Two replicas of the chart's Deployment, under the real controllers and behind its Service."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio

from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.core.assignments import PodRef
from gcushare.kube.errors import EvictionRefusedError
from gcushare.kube.resources import LEASES, PODS
from gcushare.wire.contracts import EXTENDER, LEADS_LABEL
from tests.charts import EXTENDER_CHART
from tests.e2e.assets import need_binaries, need_client
from tests.e2e.claims import start_controller_manager
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installing import account_kubeconfig, type_in
from tests.e2e.objects import find_overcommitted, node, pod
from tests.e2e.replicas import CONTROL_NODES, NAMESPACE, Kubelets, Replica
from tests.e2e.scheduling import Scheduling
from tests.e2e.service import Service, ready_addresses
from tests.e2e.waiting import until

TAKEOVER_S = 15.0
"""What is promised for a leader that is killed."""
INSTALL = (
    f"helm upgrade --install extender {EXTENDER_CHART} -n {NAMESPACE} --wait --timeout 5m --set replicaCount=2 "
    "--set scheduler.mode=none --set admission.enabled=true"
)


@dataclass
class Rig:
    scheduling: Scheduling
    kubelets: Kubelets
    service: Service

    @property
    def control_plane(self) -> ControlPlane:
        return self.scheduling.control_plane

    async def leader(self, *, other_than: str = "", deadline_s: float = 180.0) -> Replica:
        """Wait until the Service has one pod behind it, another one than that; returns it."""
        found: list[str] = []

        async def missing() -> str:
            found[:] = await ready_addresses(self.scheduling.client, EXTENDER)
            (address,) = found if len(found) == 1 else ("",)
            return "" if address and address != other_than else f"behind the Service are {found}"

        await until(missing, "the Service has one pod behind it", deadline_s=deadline_s)
        return next(each for each in self.kubelets.replicas.values() if each.address == found[0])

    async def taken_s(self, old: Replica, *, deadline_s: float) -> float:
        """Wait until the Service reaches another replica than ``old``, and it alone; returns how long that took."""
        started = time.monotonic()
        await self.leader(other_than=old.address, deadline_s=deadline_s)
        return time.monotonic() - started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(control_plane: ControlPlane) -> AsyncIterator[Rig]:
    need_binaries("kube-scheduler")
    need_client("helm")
    controllers = [f"{each}-controller" for each in ("deployment", "replicaset", "endpointslice", "disruption")]
    await start_controller_manager(control_plane, controllers, "--kube-api-qps=500", "--kube-api-burst=500")
    async with Scheduling(control_plane) as scheduling:
        await scheduling.create_nodes(node(name) for name in CONTROL_NODES)
        await scheduling.create_nodes(node(f"node-{number}", *[16] * 4) for number in range(50))
        await type_in(control_plane, INSTALL.replace("--wait ", ""))
        kubeconfig = await account_kubeconfig(control_plane, EXTENDER)
        kubelets = Kubelets(scheduling, kubeconfig)
        service = Service(scheduling.client, EXTENDER, kubelets.url_of)
        async with kubelets, service:
            yield Rig(scheduling, kubelets, service)
        await type_in(control_plane, f"helm uninstall extender -n {NAMESPACE} --no-hooks")


async def test_every_replica_is_ready_so_tools_that_wait_end_well(rig: Rig) -> None:
    await type_in(rig.control_plane, INSTALL)
    status = f"kubectl -n {NAMESPACE} rollout status deployment/{EXTENDER} --timeout 4m"
    assert "successfully rolled out" in await type_in(rig.control_plane, status)
    await rig.leader()
    restart = f"kubectl -n {NAMESPACE} rollout restart deployment/{EXTENDER}"
    assert "successfully rolled out" in await type_in(rig.control_plane, f"{restart} && {status}")
    leader = await rig.leader()
    lease = await rig.scheduling.client.get(LEASES, EXTENDER, namespace=NAMESPACE)
    assert lease.spec.holder_identity
    labelled = await rig.scheduling.client.get(PODS, leader.pod, namespace=NAMESPACE)
    assert labelled.metadata.labels[LEADS_LABEL] == EXTENDER


async def test_a_replica_that_does_not_lead_is_ready_and_says_who_does(rig: Rig) -> None:
    leader = await rig.leader()
    await type_in(rig.control_plane, f"kubectl -n {NAMESPACE} rollout status deployment/{EXTENDER} --timeout 4m")
    others = [each for each in rig.kubelets.replicas.values() if each.is_ready and each is not leader and each.url]
    lease = await rig.scheduling.client.get(LEASES, EXTENDER, namespace=NAMESPACE)
    assert len(others) == 1
    url = f"{others[0].url}/gcushare-scheduler/filter"

    async def missing() -> str:
        body = {"Pod": pod("asked", 4), "NodeNames": ["node-1"]}
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            assert answer.status == 503
            said = await answer.text()
        # It looks who leads once a second.
        return "" if (lease.spec.holder_identity or "stranger") in said else said

    await until(missing, "the other replica names the leader")


async def test_a_killed_leader_is_followed_and_no_card_is_overcommitted(rig: Rig) -> None:
    scheduling = rig.scheduling
    leader = await rig.leader()
    settings = ExtenderEntry(url=rig.service.url, options=ExtenderOptions(vendor="enflame"))
    await rig.control_plane.start_scheduler(settings)
    creating = asyncio.create_task(
        scheduling.create_pods(pod(f"pod-{number}", 3 + number % 4) for number in range(400)), name="create"
    )
    await scheduling.until_all_bound(50)
    leader.is_cut_off = True
    await leader.child.kill()
    try:
        taken_s = await rig.taken_s(leader, deadline_s=60.0)
        await creating
        await scheduling.until_all_bound(400)
        assert not find_overcommitted(scheduling.bound(), scheduling.nodes.objects.values())
        assert taken_s <= TAKEOVER_S
    finally:
        await rig.scheduling.client.delete(PODS, leader.pod, namespace=NAMESPACE, grace_s=0)


async def test_the_node_of_the_leader_is_drained_and_the_next_serves_at_once(rig: Rig) -> None:
    leader = await rig.leader()
    await type_in(rig.control_plane, f"kubectl -n {NAMESPACE} rollout status deployment/{EXTENDER} --timeout 4m")
    lease = await rig.scheduling.client.get(LEASES, EXTENDER, namespace=NAMESPACE)
    other = next(each for each in rig.kubelets.replicas.values() if each.url and each is not leader)
    await evict(rig, leader)
    started = time.monotonic()
    with pytest.raises(EvictionRefusedError):
        await evict(rig, other)
    await rig.leader(other_than=leader.address)
    assert time.monotonic() - started < (lease.spec.lease_duration_seconds or 0), "it waited for the lease to end"


async def test_a_leader_that_is_cut_off_is_called_no_more_also_when_it_is_back(rig: Rig) -> None:
    leader = await rig.leader()
    await type_in(rig.control_plane, f"kubectl -n {NAMESPACE} rollout status deployment/{EXTENDER} --timeout 4m")
    leader.is_cut_off = True
    leader.child.send_signal(signal.SIGSTOP)
    try:
        assert await rig.taken_s(leader, deadline_s=60.0) <= TAKEOVER_S
    finally:
        leader.child.send_signal(signal.SIGCONT)
        leader.is_cut_off = False
    new = await rig.leader(other_than=leader.address)
    for _ in range(20):
        assert await ready_addresses(rig.scheduling.client, EXTENDER) == [new.address]
        await asyncio.sleep(0.1)


async def evict(rig: Rig, replica: Replica) -> None:
    found = await rig.scheduling.client.get(PODS, replica.pod, namespace=NAMESPACE)
    await rig.scheduling.client.evict_pod(PodRef(found.metadata.uid, NAMESPACE, replica.pod))
