"""One node with real programs: swapped admission, input that must not harm, and what forged records are worth."""

from __future__ import annotations

import io
import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from gcushare.core.units import GIB
from gcushare.kube.errors import InvalidError
from gcushare.kube.patches import Patch, PatchKind
from gcushare_playground.picture import POD_OBJECTS, condition_of, node_of, phase_of
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.census import Census, manifest
from tests.playground.clusters import started

# One group: the cluster is started once, in one worker.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("single node")]

PREFIX = "/gcushare-scheduler"
NODE = "node-1"
NUMBERS = itertools.count()
RECORD = {
    "enflame.com/gcu-device-id": "3",
    "enflame.com/gcu-device-memory": "16",
    "enflame.com/gcu-device-memory-request": "16",
    "enflame.com/gcu-device-assigned": "true",
    "enflame.com/gcu-device-assign-time": "1",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running_cluster() -> AsyncIterator[Census]:
    nodes = (NodePlan(name=NODE, card_bytes=(16 * GIB,) * 4),)
    async with started(ClusterPlan(nodes=nodes, wait_factor=0.1, unschedulable_s=3.0)) as census:
        yield census


@pytest_asyncio.fixture(loop_scope="module")
async def census(running_cluster: Census) -> AsyncIterator[Census]:
    yield running_cluster
    await running_cluster.delete_all()


async def create(census: Census, name: str, units: object, **metadata: Any) -> str:
    await census.cluster.client.create(POD_OBJECTS, manifest(name, units, **metadata), namespace="default")
    return f"default/{name}"


async def post(census: Census, verb: str, body: bytes | io.BytesIO) -> tuple[int, str]:
    url = f"{census.cluster.extender_url}{PREFIX}/{verb}"
    async with census.cluster.http.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
        return answer.status, await answer.text()


async def assert_it_goes_on(census: Census) -> None:
    """The next pod is placed, and nothing else has taken room."""
    key = await create(census, f"after-{next(NUMBERS)}", 2)
    await census.cluster.pods.until(lambda: key in census.pods, f"{key} exists")
    await census.wait_quiet(len(census.pods))
    assert phase_of(census.pods[key]) == "Running"
    assert (await census.cluster.inspect())["nodes"][0]["usedGCU"] == 2


async def test_two_pods_of_equal_size_admitted_in_swapped_order_end_with_true_records(census: Census) -> None:
    kubelet = census.doubles.kubelets[NODE]
    kubelet.faults.admission_open.clear()
    try:
        # 12 units each: one per card, so that every pod has a card of its own to be confused about.
        keys = [await create(census, f"twin-{number}", 12) for number in range(4)]
        await census.cluster.pods.until(
            lambda: all(node_of(census.pods.get(key, {"spec": {}})) for key in keys), "bound"
        )
        await kubelet.gather_pods(len(keys))
        planned = {key: census.record_of(census.pods[key]) for key in keys}
        admitted: list[str] = []

        async def note(uid: str, _container: str) -> None:
            admitted.append(uid)

        kubelet.faults.before_allocate = note
        kubelet.faults.admission_open.set()
        await census.wait_quiet(len(keys))
    finally:
        kubelet.faults.before_allocate = None
        kubelet.faults.admission_open.set()
    created = [census.pods[key]["metadata"]["uid"] for key in keys]
    assert admitted != created, "the kubelet double admitted in the order of creation: nothing was swapped"
    assert {record.card_indexes for record in planned.values() if record} == {(0,), (1,), (2,), (3,)}
    assert list(census.problems()) == []


@pytest.mark.parametrize("units", ["1.5", "-4", "four", ""])
async def test_a_quantity_that_is_none_is_refused_by_the_api_server(census: Census, units: str) -> None:
    with pytest.raises(InvalidError):
        await create(census, "bad", units)
    await assert_it_goes_on(census)


@pytest.mark.parametrize("units", [17, 65, 9_000_000_000_000_000_000])
async def test_more_than_a_card_holds_waits_and_says_why(census: Census, units: int) -> None:
    key = await create(census, "huge", units)
    await census.cluster.pods.until(
        lambda: bool(condition_of(census.pods.get(key, {}), "PodScheduled").get("message")), "the pod is told"
    )
    message = condition_of(census.pods[key], "PodScheduled")["message"]
    wanted = "insufficient GCU Memory in one gcu device" if units <= 64 else "Insufficient enflame.com/gcu-memory"
    assert message == f"0/1 nodes are available: 1 {wanted}."
    await assert_it_goes_on(census)


FILTER = (
    '{"Pod":{"metadata":{"name":"%s","namespace":"default","uid":"%s"},"spec":{"containers":[{"name":"c","resources":'
    '{"limits":{"enflame.com/gcu-memory":%s}}}]}},"NodeNames":%s}'
)


def asking(units: str, names: str = '["node-1"]', *, name: str = "x", uid: str = "u") -> bytes:
    return (FILTER % (name, uid, units, names)).encode()


@pytest.mark.parametrize(
    ("verb", "body", "named"),
    [
        pytest.param("filter", asking("4"), "does not exist", id="a pod that nobody made"),
        pytest.param("filter", b"{not json", "not json", id="not JSON"),
        pytest.param("filter", b"\xff\xfe", "filter arguments", id="not text"),
        pytest.param("filter", b"[" * 100_000, "filter arguments", id="too deep"),
        pytest.param("bind", b"{}", "bind arguments", id="bind without arguments"),
        pytest.param(
            "bind",
            b'{"PodName":"nobody","PodNamespace":"default","PodUID":"u","Node":"node-1"}',
            "nobody",
            id="bind of no pod",
        ),
    ],
)
async def test_a_request_that_cannot_be_granted_is_answered_with_the_value_at_fault(
    census: Census, verb: str, body: bytes, named: str
) -> None:
    status, text = await post(census, verb, body)
    assert status in (200, 400), text
    assert named in text
    assert "Error" in text or "error" in text
    await assert_it_goes_on(census)


async def test_an_unknown_node_is_refused_by_bind_and_by_filter(census: Census) -> None:
    key = await create(census, "p", 20)
    await census.cluster.pods.until(lambda: key in census.pods, "the pod exists")
    uid = census.pods[key]["metadata"]["uid"]
    status, text = await post(census, "filter", asking("20", '["nowhere"]', name="p", uid=uid))
    assert (status, '"NodeNames":[]' in text, '"nowhere":' in text) == (200, True, True)
    arguments = f'{{"PodName":"p","PodNamespace":"default","PodUID":"{uid}","Node":"nowhere"}}'
    status, text = await post(census, "bind", arguments.encode())
    assert status == 200
    assert "nowhere" in text
    assert not node_of(census.pods[key])
    await assert_it_goes_on(census)


async def test_an_unknown_verb_is_not_found(census: Census) -> None:
    status, _ = await post(census, "conquer", b"{}")
    assert status == 404


async def test_a_body_of_100_mb_is_refused_without_being_read(census: Census) -> None:
    extender = census.cluster.extender
    assert extender is not None
    before = resident_bytes(extender.pid)
    try:
        status, text = await post(census, "filter", io.BytesIO(b" " * 100_000_000))
        assert status == 413, text
        assert "at most 3145728 bytes" in text, "the limit is named"
    except aiohttp.ClientError:
        pass  # cut off while we were still sending: refused as well
    assert resident_bytes(extender.pid) - before < 50_000_000
    await assert_it_goes_on(census)


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel
        return int(file.read().split()[1]) * 4096


async def test_a_forged_record_reserves_nothing_and_is_replaced_when_the_pod_is_bound(census: Census) -> None:
    forged = await create(census, "forged", 20, annotations=RECORD)
    await census.cluster.pods.until(
        lambda: bool(condition_of(census.pods.get(forged, {}), "PodScheduled").get("message")), "the pod is told"
    )
    document = await census.cluster.inspect()
    assert document["nodes"][0]["usedGCU"] == 0
    small = await create(census, "small", 4, annotations=RECORD)
    await census.wait_quiet(2)
    record = census.record_of(census.pods[small])
    assert record is not None
    assert (record.card_indexes, record.pod_units) == ((0,), 4)
    assert record.assign_time_ns > 1


async def test_pods_finish_and_give_their_units_back(census: Census) -> None:
    key = await create(census, "short", 16)
    await census.wait_quiet(1)
    await census.doubles.kubelets[NODE].finish(census.pods[key]["metadata"]["uid"])
    others: Sequence[str] = [await create(census, f"next-{number}", 16) for number in range(4)]
    await census.wait_quiet(5)
    assert {phase_of(census.pods[other]) for other in others} == {"Running"}
    assert sum(census.used_by_records().values()) == 64


async def test_a_record_falsified_while_the_plugin_is_away_is_noticed_and_put_right_when_it_is_back(
    census: Census,
) -> None:
    """The census's own negative control, too: it must see what is wrong before it may say that all is well."""
    cluster = census.cluster
    key = await create(census, "victim", 4)
    await census.wait_quiet(1)
    await cluster.plugins[NODE].kill()
    falsified = Patch(PatchKind.MERGE, {"metadata": {"annotations": {"enflame.com/gcu-device-id": "2"}}})
    await cluster.client.patch(POD_OBJECTS, "victim", falsified, namespace="default")
    await cluster.pods.until(lambda: list(census.problems()) != [], "the census sees it")
    assert list(census.problems()) == [
        "victim: record says {2: 4}, kubelet gave {0: 4}",
        "victim: record says card (2,), its container sees 0",
    ]
    await cluster.start_plugin(cluster.plan.nodes[0])
    await census.wait_quiet(1)
    record = census.record_of(census.pods[key])
    assert record is not None
    assert record.card_indexes == (0,)
