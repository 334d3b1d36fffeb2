"""bind and explain find the vendor of a pod by what is known of it, or by reading it once."""

from __future__ import annotations

import json

import pytest

from gcushare.core.errors import NotFoundError, Refused
from gcushare.vendors import ALIYUN, ENFLAME
from tests.extender_objects import a_node, a_pod, on_card, state_of
from tests.unit.extender_cluster import Cluster
from tests.unit.extender_desk import dispatcher_of


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

    assert await dispatcher.bind(bind_body("b", "gpu")) == "aliyun"
    assert await dispatcher.bind(bind_body("a", "gcu")) == "enflame"
    assert cluster.reads == (0 if seen else 2)
    assert ALIYUN.record.card_index in cluster.pods["default", "b"].metadata.annotations
    assert ENFLAME.record.card_index in cluster.pods["default", "a"].metadata.annotations
    assert await dispatcher.bind(bind_body("b", "gpu")) == "aliyun"


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
    with pytest.raises(Refused, match=words):
        await dispatcher.bind(body)

    assert cluster.bindings == []


async def test_explain_finds_the_pod_under_either_prefix() -> None:
    gcu, gpu = state_of(a_node("gcu", 16)), state_of(a_node("gpu", 16, vendor=ALIYUN), vendor=ALIYUN)
    gpu.see_pod(a_pod("b", 4, vendor=ALIYUN, node="gpu", record=on_card(0, 4)))
    for states in ((gcu, gpu), (gpu, gcu)):
        dispatcher = dispatcher_of(*((state, None) for state in states))
        assert (await dispatcher.explain("default", "b")).node == "gpu"
        with pytest.raises(NotFoundError, match="default/ghost"):
            await dispatcher.explain("default", "ghost")
