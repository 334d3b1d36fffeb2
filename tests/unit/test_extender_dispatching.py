"""The calls find a pod by what the API server has of it, known from the watch or read once; never by their bodies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gcushare.core.errors import ForbiddenError, NotFoundError, Refused, RemoteContractError, RetryableError
from gcushare.kube.clock import SystemClock
from gcushare.kube.errors import AlreadyExistsError, UnknownOutcomeError
from gcushare.scheduler_extender.extender_settings import NamedNodes
from gcushare.scheduler_extender.leadership import NotLeader
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.dispatch import Dispatcher
from gcushare.scheduler_extender.verbs.filter import FilterService
from gcushare.scheduler_extender.verbs.pod_lookup import BURST_READS
from gcushare.scheduler_extender.verbs.request_metrics import VerbAnswer, reason_of, result_of
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.objects import Pod
from tests.extender_objects import Document, a_node, a_pod, as_pod, filter_body, on_card, pod_document, state_of
from tests.unit.extender_binds import Office
from tests.unit.extender_cluster import Cluster, Mishap
from tests.unit.extender_desk import Caller, dispatcher_of, services_of


def caller(*pods: Pod, nodes: Sequence[str] = ("gcu",), seen: bool = True, **options: Any) -> Caller:
    """The caller of an extender of one vendor, whose nodes have a card of 16."""
    return Caller(Cluster(*pods), state_of(*(a_node(name, 16) for name in nodes)), seen=seen, **options)


def of_both_vendors(*pods: Pod, seen: bool = True) -> Caller:
    """The caller of an extender whose nodes gcu and gpu have a card of 16 of their vendor."""
    gcu, gpu = state_of(a_node("gcu", 16)), state_of(a_node("gpu", 16, vendor=ALIYUN), vendor=ALIYUN)
    return Caller(Cluster(*pods), gcu, gpu, seen=seen)


NOT_FILTERED = "has not passed filter here lately"


@pytest.mark.parametrize("seen", [True, False])
async def test_a_bind_finds_the_vendor_of_its_pod(seen: bool) -> None:
    here = of_both_vendors(a_pod("a", 4), a_pod("b", 4, vendor=ALIYUN), seen=seen)
    for document in (pod_document("a", 4), pod_document("b", 4, vendor=ALIYUN)):
        await here.filter(document, "gcu", "gpu")

    for name, node, vendor in (("b", "gpu", ALIYUN), ("a", "gcu", ENFLAME), ("b", "gpu", ALIYUN)):
        assert (await here.bind(name, node)).vendor == vendor.name
        assert vendor.record.card_index in here.cluster.pods["default", name].metadata.annotations
    assert here.cluster.reads == (0 if seen else 2)


class TestForged:
    """What a caller makes up is compared with what the API server has, and changes nothing."""

    @pytest.mark.parametrize("seen", [True, False])
    @pytest.mark.parametrize(
        ("document", "words"),
        [
            pytest.param(pod_document("ghost", 4), "pod default/ghost does not exist", id="no such pod"),
            pytest.param(pod_document("a", 4, uid="other"), "it is another pod", id="another uid"),
            pytest.param(pod_document("bound", 4), "is bound to node 'gcu' already", id="a pod that has a node"),
            pytest.param(pod_document("leaving", 4), "is being deleted, and is placed no more", id="a deleted pod"),
        ],
    )
    async def test_a_pod_that_is_not_as_the_body_says_passes_no_filter(
        self, document: Document, words: str, seen: bool
    ) -> None:
        refused: list[SchedulingRequest] = []
        state = state_of(a_node("gcu", 16))
        filters = FilterService(state, named=NamedNodes(20), refusals=refused.append)
        bound = a_pod("bound", 4, node="gcu", record=on_card(0, 4))
        leaving = a_pod("leaving", 4, deletionTimestamp="2026-01-01T00:00:00Z")
        here = Caller(Cluster(a_pod("a", 4), bound, leaving), state, filters=filters, seen=seen)

        assert words in (await here.filter(document, "gcu"))["Error"]
        meta = document["metadata"]
        error = await here.bind_error(meta["name"], "other", meta["uid"])
        assert NOT_FILTERED in error or "already" in error
        assert (here.cluster.bindings, refused) == ([], [])

    async def test_the_uid_of_one_pod_under_the_name_of_another_passes_no_filter(self) -> None:
        here = caller(a_pod("a", 4), a_pod("b", 4))
        error = (await here.filter(pod_document("b", 4, uid="uid-a"), "gcu"))["Error"]
        assert error == "uid 'uid-a' is pod default/a, not default/b"

    @pytest.mark.parametrize("seen", [True, False])
    async def test_a_pod_that_asks_for_nothing_is_bound_nowhere_whatever_its_body_asks_for(self, seen: bool) -> None:
        here = caller(a_pod("plain", None), seen=seen)
        for _ in range(2):
            assert (await here.filter(pod_document("plain", 4), "gcu"))["NodeNames"] == ["gcu"]
        assert NOT_FILTERED in await here.bind_error("plain", "gcu")
        assert (here.cluster.bindings, here.cluster.reads) == ([], 1)

    @pytest.mark.parametrize("seen", [True, False])
    @pytest.mark.parametrize("said", [1, None])
    async def test_a_pod_is_judged_by_what_the_api_server_has_of_it(self, said: int | None, seen: bool) -> None:
        here = caller(a_pod("large", 20), seen=seen)
        await here.filter(pod_document("large", said), "gcu")
        assert NOT_FILTERED in await here.bind_error("large", "gcu")
        assert here.cluster.bindings == []

    @pytest.mark.parametrize("units", [0, 4])
    async def test_a_pod_is_bound_only_where_filter_sent_it(self, units: int) -> None:
        here = caller(a_pod("a", units), nodes=("gcu", "cordoned"))
        assert NOT_FILTERED in await here.bind_error("a", "gcu")
        await here.filter(pod_document("a", units), "gcu")
        elsewhere = await here.bind("a", "cordoned")
        assert "node 'cordoned', which filter did not name for it" in json.loads(elsewhere.body)["Error"]
        assert (elsewhere.result, elsewhere.reason) == ("refused", "declined")
        renamed = await here.bind_error("b", "gcu", "uid-a")
        assert ("uid 'uid-a' is pod default/a" if units else "pod default/b does not exist") in renamed
        assert here.cluster.bindings == []
        assert (await here.bind("a", "gcu")).result == "bound"
        if units:
            assert (await here.bind("a", "gcu")).result == "bound", "asked again, the answer is the same"
        assert len(here.cluster.bindings) == 1

    async def test_a_pod_that_has_gone_takes_its_filter_with_it(self) -> None:
        here = caller(a_pod("a", 4))
        await here.filter(pod_document("a", 4), "gcu")
        here.state.pod_deleted("uid-a")

        assert (await here.bind("a", "gcu")).result == "refused"
        assert here.cluster.bindings == []

    async def test_pods_that_no_one_has_seen_are_read_so_many_and_no_more(self) -> None:
        here = caller()
        ghosts = [pod_document(f"ghost-{number}", 4) for number in range(2 * BURST_READS)]
        errors = [(await here.filter(ghost, "gcu"))["Error"] for ghost in ghosts]

        assert BURST_READS <= here.cluster.reads < 2 * BURST_READS
        assert any("try again in a moment" in error for error in errors)
        here.cluster.put(a_pod("a", 4))
        here.see()
        assert (await here.filter(pod_document("a", 4), "gcu"))["NodeNames"] == ["gcu"], "known pods need no read"


class TestZero:
    """A pod that names our resource with quantity 0: kube-scheduler asks us about it, and leaves its binding to us."""

    @pytest.mark.parametrize("vendor", [ENFLAME, ALIYUN], ids=["own", "other"])
    @pytest.mark.parametrize("zero", [0, "0"])
    @pytest.mark.parametrize("sends", ["names", "nodes"])
    async def test_it_is_bound_to_any_node_without_a_record(self, vendor: Vendor, zero: object, sends: str) -> None:
        here = of_both_vendors(a_pod("zero", zero, vendor=vendor))
        body = filter_body(pod_document("zero", zero, vendor=vendor), ["gcu", "plain"])
        if sends == "nodes":
            items = {"items": [{"metadata": {"name": name}} for name in ("gcu", "plain")]}
            body = json.dumps({**json.loads(body), "Nodes": items, "NodeNames": None}).encode()
        answer = here.dispatcher.filter(body)
        answer = answer if isinstance(answer, VerbAnswer) else await answer
        bound = await here.bind("zero", "plain")

        assert (answer.result, bound.result, bound.vendor) == ("not_asking", "bound", vendor.name)
        pod = here.cluster.pods["default", "zero"]
        assert (pod.spec.node_name, pod.metadata.annotations) == ("plain", {})
        assert not here.state.ledger.reserved

    async def test_its_whole_cards_count_as_named_too(self) -> None:
        document = pod_document("zero")
        document["spec"]["containers"][0]["resources"] = {"limits": {ENFLAME.whole_card_resource: "0"}}
        here = caller(as_pod(document), seen=False)
        await here.filter(document, "gcu")
        assert (await here.bind("zero", "gcu")).result == "bound"

    async def test_a_lost_answer_is_read_and_a_bound_pod_is_forgotten(self) -> None:
        here = caller(a_pod("zero", 0), seen=False)
        here.cluster.mishaps.append(Mishap.LOST_AFTER)
        await here.filter(pod_document("zero", 0), "gcu")
        assert (await here.bind("zero", "gcu")).result == "bound"
        here.see()
        assert here.state.named_without_record.get("uid-zero") is None
        assert not here.state.bound


async def test_a_pod_is_read_once_for_all_the_calls_about_it() -> None:
    here = caller(a_pod("a", 4), seen=False)
    await here.filter(pod_document("a", 4), "gcu")
    assert isinstance(here.dispatcher.prioritize(filter_body(pod_document("a", 4), ["gcu"])), VerbAnswer)
    assert (await here.bind("a", "gcu")).result == "bound"

    assert here.cluster.reads == 1


async def test_a_pod_that_is_not_named_is_not_read() -> None:
    here = caller(seen=False)
    with pytest.raises(RemoteContractError, match=r"^the Pod of the request has no metadata.uid, name or namespace$"):
        await here.dispatcher.prioritize(filter_body(pod_document("", 4), ["gcu"]))  # type: ignore[misc]
    assert here.cluster.reads == 0


async def test_a_pod_that_cannot_be_read_now_is_no_refusal() -> None:
    here = caller(a_pod("a", 4), seen=False)
    here.cluster.read_mishaps.extend((Mishap.HANGS_AFTER, Mishap.HANGS_AFTER))
    body = filter_body(pod_document("a", 4), ["gcu"])
    answer = here.dispatcher.filter(body)
    assert not isinstance(answer, VerbAnswer)
    assert (await answer).reason == "unavailable"
    scores = here.dispatcher.prioritize(body)
    assert not isinstance(scores, VerbAnswer)
    with pytest.raises(RetryableError):
        await scores
    assert (await here.filter(pod_document("a", 4), "gcu"))["NodeNames"] == ["gcu"]


@pytest.mark.parametrize(("units", "seen"), [(0, False), (4, True)])
async def test_one_that_may_not_bind_says_nothing_in_the_protocols_place(units: int, seen: bool) -> None:
    here = caller(a_pod("a", units), seen=seen)
    binds = BindService(here.state, here.cluster.client, Office(is_leader=False))
    services = replace(services_of(here.state, None, here.cluster.client), binds=binds)
    here.dispatcher = Dispatcher([services], here.cluster.client, SystemClock())
    await here.filter(pod_document("a", units), "gcu")
    with pytest.raises(NotLeader):
        await here.bind("a", "gcu")
    assert here.cluster.bindings == []


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
    gpu.pod_applied(a_pod("b", 4, vendor=ALIYUN, node="gpu", record=on_card(0, 4)))
    for states in ((gcu, gpu), (gpu, gcu)):
        dispatcher = dispatcher_of(*((state, None) for state in states))
        assert (await dispatcher.explain("default", "b")).node == "gpu"
        with pytest.raises(NotFoundError, match="default/ghost"):
            await dispatcher.explain("default", "ghost")
