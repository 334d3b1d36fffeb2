"""The whole path on a real kubelet: extender, kube-scheduler, kubelet, device plugin and containers that run."""

from __future__ import annotations

from gcushare.core.units import GIB
from gcushare.kube.resources import PODS
from gcushare.vendors import ENFLAME
from gcushare_playground.picture import allocatable_of, node_of, phase_of
from gcushare_playground.plans import NodePlan
from tests.e2e.control_plane import NODE
from tests.e2e.node_side import StartNode, real_pod

REFUSED = "insufficient GCU Memory in one gcu device"
EIGHT = NodePlan(name=NODE)
TWO = NodePlan(name=NODE, card_bytes=(16 * GIB,) * 2)


async def test_a_kubelet_offers_128_units_and_8_cards(start_node: StartNode) -> None:
    side = await start_node(EIGHT)
    node = side.scheduling.nodes.objects[NODE]
    assert allocatable_of(node, ENFLAME.memory_resource) == 128
    await side.scheduling.nodes.until(
        lambda: allocatable_of(side.scheduling.nodes.objects[NODE], ENFLAME.count_resource) == 8, "8 cards are offered"
    )


async def test_the_manuals_pods_run_on_the_manuals_cards(start_node: StartNode) -> None:
    side = await start_node(EIGHT)
    for name, units, card in (("pod-1", 4, 0), ("pod-2", 8, 0), ("pod-3", 12, 1)):
        await side.run_pods(real_pod(name, units))
        assert side.recorded(name) == (card,)
    await side.expect_true("pod-1", "pod-2", "pod-3")
    environment = await side.seen("pod-2")
    assert environment["ENFLAME_COM_GCU_MEM_CONTAINER"] == "8"
    await side.scheduling.create_pods([real_pod("pod-4", 20)])
    message = await side.scheduling.until_said("pod-4", "FailedScheduling")
    assert message.startswith(f"0/1 nodes are available: 1 {REFUSED}.")


async def test_a_sick_card_takes_no_new_pods_and_its_pods_run_on(start_node: StartNode) -> None:
    side = await start_node(TWO)
    await side.run_pods(real_pod("on-it", 4))
    assert side.recorded("on-it") == (0,)
    side.set_health({0: "ECC errors"})
    await side.until_allocatable(20)
    await side.run_pods(real_pod("elsewhere", 16))
    assert side.recorded("elsewhere") == (1,)
    assert phase_of(side.scheduling.pod("on-it")) == "Running"
    side.set_health()
    await side.until_allocatable(32)
    await side.run_pods(real_pod("back", 12))
    assert side.recorded("back") == (0,)
    await side.expect_true("on-it", "elsewhere", "back")


async def test_next_to_a_sick_card_an_important_pod_gets_the_empty_one_and_no_pod_ends(start_node: StartNode) -> None:
    side = await start_node(NodePlan(name=NODE, card_bytes=(16 * GIB,) * 3))
    await side.run_pods(real_pod("on-it", 12))
    await side.run_pods(real_pod("healthy", 14))
    side.set_health({side.recorded("on-it")[0]: "ECC errors"})
    await side.until_allocatable(44)
    await side.run_pods(real_pod("important", 10, priorityClassName="system-cluster-critical"))
    await side.expect_true("on-it", "healthy", "important")
    assert len({side.recorded(name) for name in ("on-it", "healthy", "important")}) == 3


async def test_a_cordoned_card_takes_no_new_pods_and_its_pods_run_on(start_node: StartNode) -> None:
    side = await start_node(TWO)
    await side.run_pods(real_pod("on-it", 4))
    assert side.recorded("on-it") == (0,)
    await side.annotate(ENFLAME.cordon_annotation, "0")
    try:
        await side.run_pods(real_pod("elsewhere", 4))
        assert side.recorded("elsewhere") == (1,)
        await side.scheduling.create_pods([real_pod("waits", 13)])
        await side.scheduling.until_said("waits", "FailedScheduling")
        assert not node_of(side.scheduling.pod("waits"))
        assert phase_of(side.scheduling.pod("on-it")) == "Running"
    finally:
        await side.annotate(ENFLAME.cordon_annotation, None)
    await side.scheduling.client.delete(PODS, "on-it", namespace="default")
    await side.until_running("waits")
    await side.expect_true("elsewhere", "waits")
