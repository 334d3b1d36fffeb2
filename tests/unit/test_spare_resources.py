"""What pods take of CPU, memory and other resources, and what nodes have left or lack: the scheduler's own sums."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.other_resources import Amounts, Shortage, SpareResources, Taken, find_shortages, show_amount
from gcushare.scheduler_extender.state.preferences import SpareObserver
from gcushare.wire.objects import (
    POD,
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
from gcushare.wire.other_resources import node_amounts, pod_amounts, pod_requests

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


def requests(**spec: object) -> dict[str, int]:
    return pod_requests(POD.read(msgspec.json.encode({"spec": spec})))


def container(restart: str | None = None, **amounts: object) -> dict[str, object]:
    made: dict[str, object] = {"name": "c", "resources": {"requests": amounts}}
    return made | ({"restartPolicy": restart} if restart else {})


def test_containers_add_up_and_an_init_container_counts_if_it_needs_more() -> None:
    found = requests(
        containers=[container(cpu="500m", memory="1Gi"), container(cpu=1)],
        initContainers=[container(cpu="2", memory="64Mi"), container("Always", cpu="100m")],
    )
    assert found == {"cpu": 2_000, "memory": (1 << 30) * 1000, "pods": 1000}


def test_a_limit_without_a_request_is_asked_for() -> None:
    limits = {"resources": {"limits": {"aliyun.com/gpu-count": "1", "cpu": "2"}, "requests": {"cpu": "1"}}}
    assert requests(containers=[limits]) == {"aliyun.com/gpu-count": 1000, "cpu": 1000, "pods": 1000}


def test_what_is_set_for_the_whole_pod_counts_instead_and_the_overhead_comes_on_top() -> None:
    found = requests(
        containers=[container(cpu="1")], resources={"requests": {"cpu": "3"}}, overhead={"cpu": "250m", "memory": "1k"}
    )
    assert found == {"cpu": 3250, "memory": 1_000_000, "pods": 1000}


def test_a_node_lacks_what_others_took_what_it_never_had_and_places_for_pods() -> None:
    asked = {"aliyun.com/gpu-count": 1000, "cpu": 500, "example.com/fpga": 1000, "memory": 0, "pods": 1000}
    allocatable = {"aliyun.com/gpu-count": "1", "cpu": "4", "pods": "1"}
    taken = [{"aliyun.com/gpu-count": 1000, "cpu": 3500, "pods": 1000}]
    assert [str(each) for each in find_shortages(asked, allocatable, taken)] == [
        "aliyun.com/gpu-count: 1 asked for, 0 of 1 free",
        "example.com/fpga: 1 asked for, 0 of 0 free",
        "pods: 1 asked for, 0 of 1 free",
    ]


def test_a_thousand_for_each_card_lacks_nothing() -> None:
    taken = [{"aliyun.com/gpu-count": 1000}] * 14
    assert find_shortages({"aliyun.com/gpu-count": 1000}, {"aliyun.com/gpu-count": "1k"}, taken) == ()


@pytest.mark.parametrize(
    ("resource", "amount", "words"),
    [
        ("cpu", 1500, "1.5"),
        ("memory", 5 * (1 << 30) * 1000, "5Gi"),
        ("hugepages-2Mi", 0, "0"),
        ("aliyun.com/gpu-count", 8_000_000_000, "8000000"),
    ],
)
def test_an_amount_is_written_as_people_write_that_resource(resource: str, amount: int, words: str) -> None:
    assert show_amount(resource, amount) == words
    assert str(Shortage(resource, amount, 0, 0)).startswith(f"{resource}: {words} asked for")
