"""Claims on a real node, with a scheduler that nothing was done to: the manual's pods, restarts, and a sick card."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

import pytest_asyncio

from gcushare.cli.inspect.__main__ import main_gcushare
from gcushare.core.units import GIB
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import EVENTS, NODES, Selector
from gcushare.node.container_environment import CONTAINER_BYTES
from gcushare.runtime.entry import ProcessContext
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare_playground.picture import node_of
from gcushare_playground.plans import NodePlan
from tests.charts import needs_helm
from tests.e2e.claims import CLAIMS, claim, install, install_extender, start_extender
from tests.e2e.claims_side import NAMES, ClaimsSide, need_cdi, pod_of, start_controllers
from tests.e2e.control_plane import NODE
from tests.e2e.machine import Machine
from tests.e2e.node_side import real_pod
from tests.e2e.scheduling import Scheduling
from tests.e2e.waiting import until

pytestmark = needs_helm

EIGHT = NodePlan(name=NODE, card_bytes=(16 * GIB,) * 8)
VARIABLES = ENFLAME.environment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def side(machine: Machine) -> AsyncIterator[ClaimsSide]:
    """A node of eight cards with everything that claims need; the scheduler has its defaults."""
    need_cdi()
    control_plane = machine.control_plane
    async with Scheduling(control_plane) as scheduling:
        await install(control_plane)
        await install_extender(control_plane)
        await start_controllers(control_plane)
        labels = {"metadata": {"labels": {SERVE_LABEL: SERVE_CLAIMS}}}
        await control_plane.client.patch(NODES, NODE, Patch(PatchKind.MERGE, labels))
        side = ClaimsSide(machine, scheduling, EIGHT)
        side.set_health()
        await side.start_driver()
        await start_extender(control_plane)
        await control_plane.start_scheduler(None)
        yield side


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def emptied(side: ClaimsSide) -> AsyncIterator[None]:
    """Delete a test's pods; nothing of theirs is left on the node."""
    yield
    await side.scheduling.delete_pods(grace_s=1)

    async def left() -> str:
        return ", ".join([*sorted(side.prepared()), *side.cdi_files()])

    await until(left, "nothing is prepared any more")


async def run_pod(side: ClaimsSide, name: str, units: int) -> str:
    """Run a pod as the manual has it; returns the card that its container was given."""
    await side.scheduling.create_pods([real_pod(name, units)])
    await side.until_started(name)
    environment = await side.seen(name)
    assert environment[VARIABLES.container_units] == str(units)
    assert environment[CONTAINER_BYTES] == str(units * GIB)
    return environment[VARIABLES.visible]


async def run_inspect(side: ClaimsSide, *words: str) -> str:
    """What ``kubectl inspect gcushare`` writes."""
    stdout, stderr = io.StringIO(), io.StringIO()
    environ = {"HOME": "/nowhere", "KUBECONFIG": str(side.scheduling.control_plane.kubeconfig)}
    code = await asyncio.to_thread(main_gcushare, ProcessContext(words, environ, stdout, stderr))
    assert code == 0, stderr.getvalue()
    return stdout.getvalue()


async def test_the_manuals_four_pods_end_as_the_manual_says(side: ClaimsSide) -> None:
    found = [await run_pod(side, name, units) for name, units in (("pod-1", 4), ("pod-2", 8), ("pod-3", 12))]
    assert found == ["0", "0", "1"]
    await side.scheduling.create_pods([real_pod("pod-4", 20)])
    message = await side.scheduling.until_said("pod-4", "FailedScheduling")
    assert "cannot allocate all claims" in message
    assert node_of(side.scheduling.pod("pod-4")) == ""
    explained = (await run_inspect(side, "explain", "pod-4")).splitlines()
    assert explained[1:3] == [
        "  by a claim, needs 20 GB in one card; it can never fit: the largest usable card has 16 GB",
        '  what would help: ask for at most 16, or annotate the pod with gcushare.io/cards: "2": 10 GB in each of '
        "2 cards of one node, or add a node with a card of 20 GB or more",
    ]
    shown = [" ".join(line.split()) for line in (await run_inspect(side, "-o", "wide")).splitlines()]
    assert shown[1].split()[2:11] == ["12/16", "12/16", *["0/16"] * 6, "24/128"]
    assert "pending: 1 pod waits for 20 GB: default/pod-4 (20)" in shown
    assert shown[-2:] == ["Allocated/Total GCU Memory In Cluster:", "24/128 (18%)"]


async def test_kubelet_driver_and_containerd_restart_under_running_claims(side: ClaimsSide) -> None:
    assert await run_pod(side, "before", 4) == "0"
    container = side.scheduling.pod("before")["status"]["containerStatuses"][0]["containerID"]
    files, prepared = side.cdi_files(), side.prepared()
    await side.plugin.kill()
    await side.machine.kill_kubelet()
    await side.machine.restart_containerd()
    await side.machine.start_kubelet()
    await side.start_driver()
    assert await run_pod(side, "after", 4) == "0"
    status = side.scheduling.pod("before")["status"]["containerStatuses"][0]
    assert (status["containerID"], status["restartCount"]) == (container, 0)
    assert set(files) < set(side.cdi_files())
    assert prepared < side.prepared()


async def test_a_driver_that_is_away_for_long_loses_its_slices_and_no_share(side: ClaimsSide) -> None:
    """The kubelet deletes the slices of a driver that has been away for half a minute."""
    assert await run_pod(side, "before", 12) == "0"
    prepared = side.prepared()
    await side.plugin.kill()

    async def standing() -> str:
        return "slices stand" if await side.slices() else ""

    await until(standing, "the kubelet has deleted the slices", deadline_s=90)
    await side.scheduling.create_pods([real_pod("waits", 12)])
    await side.scheduling.until_said("waits", "FailedScheduling")
    await side.start_driver()
    await side.until_started("before", "waits")
    assert (await side.seen("waits"))[VARIABLES.visible] == "1"
    assert prepared < side.prepared()


async def test_a_whole_card_is_one_of_which_no_share_is_held(side: ClaimsSide) -> None:
    assert await run_pod(side, "share", 4) == "0"
    await side.scheduling.create_pods([real_pod("whole", 0, whole=1)])
    await side.until_started("whole")
    environment = await side.seen("whole")
    assert environment[VARIABLES.visible] == "1"
    assert VARIABLES.container_units not in environment


async def test_a_sick_card_takes_no_claims(side: ClaimsSide) -> None:
    assert await run_pod(side, "victim", 4) == "0"
    side.set_health({0: "it smokes"})

    async def tainted() -> str:
        (found,) = await side.slices()
        taints = {device.name: [taint.key for taint in device.taints] for device in found.spec.devices}
        return "" if taints["card-0"] == [f"{NAMES.driver}/sick"] else str(taints)

    await until(tainted, "the card is tainted")
    assert await run_pod(side, "other", 4) == "1"
    side.set_health()


async def test_a_container_with_two_claims_is_refused_and_two_containers_with_one_each_are_not(
    side: ClaimsSide,
) -> None:
    """The kubelet lists a pod's claims before it has the driver prepare them: without that nothing would be refused."""
    client = side.scheduling.client
    for name in ("a", "b", "c", "d"):
        await client.create(CLAIMS, claim(name, "4Gi"), namespace="default")
    both, apart = pod_of("both", "a", "b"), pod_of("apart", "c", "d")
    (first,) = apart["spec"]["containers"]
    apart["spec"]["containers"] = [
        first | {"name": each, "resources": {"claims": [{"name": each}]}} for each in ("c", "d")
    ]
    await side.scheduling.create_pods([both, apart])
    await side.until_started("apart")

    async def refusal() -> str:
        events = await client.list_all(EVENTS, Selector(fields="involvedObject.name=both"))
        words = "container 'main' of pod default/both uses the claims default/a and default/b"
        return "" if any(words in event.message for event in events) else str([event.message for event in events])

    await until(refusal, "an event of the pod says why")
    assert side.prepared() == {"c", "d"}
