"""bind and explain find the vendor of a pod by what is known of it, or by reading it once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gcushare.core.errors import ForbiddenError, NotFoundError, Refused, RemoteContractError, RetryableError
from gcushare.kube import AlreadyExistsError, UnknownOutcomeError
from gcushare.scheduler_extender.binding import BindService
from gcushare.scheduler_extender.dispatching import Dispatcher, reason_of, result_of
from gcushare.scheduler_extender.outcomes import NotLeader
from gcushare.vendors import ALIYUN, ENFLAME
from tests.extender_objects import a_node, a_pod, on_card, state_of
from tests.unit.extender_binds import Office
from tests.unit.extender_cluster import Cluster
from tests.unit.extender_desk import dispatcher_of, services_of


def bind_body(name: str, node: str, uid: str | None = None) -> bytes:
    arguments = {"PodName": name, "PodNamespace": "default", "PodUID": uid or f"uid-{name}", "Node": node}
    return json.dumps(arguments).encode()


@pytest.mark.parametrize("seen", [True, False])
async def test_a_bind_finds_the_vendor_of_its_pod(seen: bool) -> None:
    gcu = state_of(a_node("gcu", 16))
    gpu = state_of(a_node("gpu", 16, vendor=ALIYUN), vendor=ALIYUN)
    cluster = Cluster(a_pod("a", 4), a_pod("b", 4, vendor=ALIYUN))
    if seen:
        cluster.tell(gcu)
        cluster.tell(gpu)
    dispatcher = dispatcher_of((gcu, None), (gpu, None), cluster=cluster)

    assert (await dispatcher.bind(bind_body("b", "gpu"))).vendor == "aliyun"
    assert (await dispatcher.bind(bind_body("a", "gcu"))).vendor == "enflame"
    assert cluster.reads == (0 if seen else 2)
    assert ALIYUN.record.card_index in cluster.pods["default", "b"].metadata.annotations
    assert ENFLAME.record.card_index in cluster.pods["default", "a"].metadata.annotations
    assert (await dispatcher.bind(bind_body("b", "gpu"))).vendor == "aliyun"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(bind_body("ghost", "gcu"), "pod default/ghost does not exist", id="unknown"),
        pytest.param(bind_body("b", "gpu", "other"), "it is another pod", id="another uid"),
        pytest.param(bind_body("c", "gpu"), "asks for no enflame.com/gcu-memory", id="asks for nothing"),
    ],
)
async def test_a_bind_that_belongs_to_no_vendor_is_refused(body: bytes, words: str) -> None:
    cluster = Cluster(a_pod("b", 4, vendor=ALIYUN), a_pod("c", None))
    gpu = state_of(a_node("gpu", 16, vendor=ALIYUN), vendor=ALIYUN)
    dispatcher = dispatcher_of((state_of(a_node("gcu", 16)), None), (gpu, None), cluster=cluster)
    answer = await dispatcher.bind(body)

    assert words in json.loads(answer.body)["Error"]
    assert (answer.result, answer.reason) == ("refused", "declined")
    assert cluster.bindings == []


async def test_a_bind_that_fails_is_told_of_the_vendor_whose_pod_it_is() -> None:
    gcu, gpu = state_of(a_node("gcu", 16)), state_of(a_node("gpu", 2, vendor=ALIYUN), vendor=ALIYUN)
    cluster = Cluster(a_pod("b", 4, vendor=ALIYUN))
    cluster.tell(gpu)
    answer = await dispatcher_of((gcu, None), (gpu, None), cluster=cluster).bind(bind_body("b", "gpu"))

    assert "needs 4 in one card" in json.loads(answer.body)["Error"]
    assert (answer.vendor, answer.result) == ("aliyun", "refused")


async def test_one_that_may_not_bind_says_nothing_in_the_protocols_place() -> None:
    state, cluster = state_of(a_node("gcu", 16)), Cluster(a_pod("a", 4))
    cluster.tell(state)
    services = replace(services_of(state, None, cluster), binds=BindService(state, cluster, Office(is_leader=False)))
    with pytest.raises(NotLeader):
        await Dispatcher([services], cluster).bind(bind_body("a", "gcu"))


@pytest.mark.parametrize(
    ("error", "result", "reason"),
    [
        (RemoteContractError("no JSON"), "refused", "malformed"),
        (Refused("no room"), "refused", "declined"),
        (NotFoundError("no pod"), "error", "gone"),
        (AlreadyExistsError("there is one"), "error", "conflict"),
        (ForbiddenError("not you"), "error", "forbidden"),
        (UnknownOutcomeError("lost"), "error", "unknown_outcome"),
        (RetryableError("busy"), "error", "unavailable"),
        (KeyError("ours"), "error", "defect"),
    ],
)
def test_what_comes_in_the_way_of_a_call_is_counted_by_its_family(error: Exception, result: str, reason: str) -> None:
    assert (result_of(error), reason_of(error)) == (result, reason)


async def test_explain_finds_the_pod_under_either_prefix() -> None:
    gcu, gpu = state_of(a_node("gcu", 16)), state_of(a_node("gpu", 16, vendor=ALIYUN), vendor=ALIYUN)
    gpu.see_pod(a_pod("b", 4, vendor=ALIYUN, node="gpu", record=on_card(0, 4)))
    for states in ((gcu, gpu), (gpu, gcu)):
        dispatcher = dispatcher_of(*((state, None) for state in states))
        assert (await dispatcher.explain("default", "b")).node == "gpu"
        with pytest.raises(NotFoundError, match="default/ghost"):
            await dispatcher.explain("default", "ghost")
