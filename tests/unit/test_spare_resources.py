"""CPU and memory that are left on nodes, whatever the order in which nodes and pods were seen."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.other_resources import Amounts, SpareResources, Taken
from gcushare.scheduler_extender.state.preferences import SpareObserver
from gcushare.wire.objects import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    RawQuantity,
    ResourceRequirements,
)
from gcushare.wire.other_resources import node_amounts, pod_amounts

NAMES = st.sampled_from("ab")
amounts = st.builds(Amounts, st.integers(0, 9), st.integers(0, 9))
steps = st.one_of(
    st.tuples(st.just("offer"), NAMES, st.one_of(st.none(), amounts)),
    st.tuples(st.just("take"), NAMES, st.tuples(st.sampled_from("123"), amounts)),
    st.tuples(st.just("end"), NAMES, st.sampled_from("123")),
)


@given(st.lists(steps, max_size=30))
def test_what_is_left_is_what_nodes_offer_less_what_their_pods_ask_for(found: list[tuple[str, str, object]]) -> None:
    spare = SpareResources()
    reported: list[str] = []
    spare.listen(reported.append)
    offered: dict[str, Amounts] = {}
    pods: dict[str, tuple[str, Amounts]] = {}
    for step in found:
        before = {name: spare.left(name) for name in "ab"}
        reported.clear()
        match step:
            case ("offer", node, Amounts() as amount):
                spare.update(node, amount)
                offered[node] = amount
            case ("offer", node, _):
                spare.update(node, None)
                offered.pop(node, None)
            case ("take", node, (str(uid), Amounts() as amount)):
                spare.take(uid, Taken(node, amount))
                pods[uid] = (node, amount)
            case ("end", _, str(uid)):
                spare.give_back(uid)
                pods.pop(uid, None)
        for name in "ab":
            mine = [amount for node, amount in pods.values() if node == name]
            total = offered.get(name, Amounts())
            assert spare.left(name) == (
                max(0, total.cpu_milli - sum(each.cpu_milli for each in mine)),
                max(0, total.memory_mib - sum(each.memory_mib for each in mine)),
            )
            assert name in reported or spare.left(name) == before[name]
    assert spare.pods == pods.keys()


def a_pod(cpu: str, memory: str, *, phase: str = "Running", node: str = "n") -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu, "memory": memory})
    containers = tuple(Container(name=name, resources=resources) for name in "cd")
    spec = PodSpec(node_name=node, containers=containers)
    return Pod(metadata=ObjectMeta(name="p", uid="u"), spec=spec, status=PodStatus(phase=phase))


def test_amounts_are_read_as_the_cluster_writes_them() -> None:
    assert pod_amounts(a_pod("1500m", "1Gi")) == Amounts(3000, 2048)
    assert pod_amounts(a_pod("0.0001", "1")) == Amounts(2, 2), "what a container asks for is rounded up"
    assert pod_amounts(a_pod("nonsense", "1Gi")) == Amounts(0, 2048)
    node = Node(status=NodeStatus(capacity={"cpu": "8", "memory": "2Gi"}, allocatable={"cpu": "7900m"}))
    assert node_amounts(node) == Amounts(7900, 2048)


@pytest.mark.parametrize(
    ("of_pod", "overhead", "amounts"),
    [
        pytest.param({"cpu": "9"}, {}, Amounts(9000, 2048), id="the pod's CPU, the containers' memory"),
        pytest.param({"cpu": "0", "memory": "7Gi", "hugepages-2Mi": "1Gi"}, {}, Amounts(0, 7168), id="none asked for"),
        pytest.param({"memory": "1"}, {"cpu": "250m", "memory": "160Mi"}, Amounts(3250, 161), id="both"),
        pytest.param({}, {"cpu": "1e-1", "example.com/x": "3"}, Amounts(3100, 2048), id="a RuntimeClass alone"),
    ],
)
def test_what_a_pod_asks_for_as_a_whole_and_its_overhead_count(
    of_pod: dict[str, RawQuantity], overhead: dict[str, RawQuantity], amounts: Amounts
) -> None:
    pod = a_pod("1500m", "1Gi")
    whole = ResourceRequirements(requests=of_pod)
    spec = msgspec.structs.replace(pod.spec, resources=whole, overhead=overhead)
    assert pod_amounts(msgspec.structs.replace(pod, spec=spec)) == amounts


def test_pods_that_end_or_are_gone_give_back_what_they_took() -> None:
    spare = SpareResources()
    observer = SpareObserver(spare)
    status = NodeStatus(allocatable={"cpu": "8", "memory": "8Gi"})
    observer.node_applied(Node(metadata=ObjectMeta(name="n"), status=status))
    observer.pod_applied(a_pod("1", "1Gi", node=""))
    assert spare.left("n") == Amounts(8000, 8192)
    ends: tuple[Callable[[], None], ...] = (
        lambda: observer.pod_applied(a_pod("1", "1Gi", phase="Succeeded")),
        lambda: observer.pod_deleted("u"),
        lambda: observer.pods_retained(frozenset({"other"}), "1"),
    )
    for end in ends:
        observer.pod_applied(a_pod("1", "1Gi"))
        assert spare.left("n") == Amounts(6000, 6144)
        assert spare.asked_by("u") == Amounts(2000, 2048)
        end()
        assert spare.left("n") == Amounts(8000, 8192)
    observer.node_deleted("n")
    assert spare.left("n") == Amounts()
