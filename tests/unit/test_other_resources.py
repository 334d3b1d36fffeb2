"""The other resources that a pod takes of a node, and what a node lacks for the pod: the scheduler's own sums."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.core.other_resources import Shortage, find_shortages, show_amount
from gcushare.wire.objects import POD
from gcushare.wire.other_resources import pod_requests


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
        ("enflame.com/gcu-memory", 262_144_000, "262144"),
        ("aliyun.com/gpu-count", 8_000_000_000, "8000000"),
    ],
)
def test_an_amount_is_written_as_people_write_that_resource(resource: str, amount: int, words: str) -> None:
    assert show_amount(resource, amount) == words
    assert str(Shortage(resource, amount, 0, 0)).startswith(f"{resource}: {words} asked for")
