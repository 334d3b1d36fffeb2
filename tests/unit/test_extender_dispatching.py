"""The calls find a pod by what the API server has of it, known from the watch or read once; never by their bodies."""

from __future__ import annotations

import json
from dataclasses import replace

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
from tests.extender_objects import Document, a_node, a_pod, as_pod, filter_body, on_card, pod_document, state_of
from tests.unit.extender_binds import Office
from tests.unit.extender_cluster import Cluster, Mishap
from tests.unit.extender_desk import dispatcher_of, services_of


def bind_body(name: str, node: str, uid: str | None = None) -> bytes:
    arguments = {"PodName": name, "PodNamespace": "default", "PodUID": uid or f"uid-{name}", "Node": node}
    return json.dumps(arguments).encode()


async def ask(dispatcher: Dispatcher, pod: Document, *nodes: str) -> Document:
    """Filter's answer, whether or not the pod has to be read."""
    answer = dispatcher.filter(filter_body(pod, nodes))
    found: Document = json.loads((answer if isinstance(answer, VerbAnswer) else await answer).body)
    return found


@pytest.mark.parametrize("seen", [True, False])
async def test_a_bind_finds_the_vendor_of_its_pod(seen: bool) -> None:
    gcu = state_of(a_node("gcu", 16))
    gpu = state_of(a_node("gpu", 16, vendor=ALIYUN), vendor=ALIYUN)
    cluster = Cluster(a_pod("a", 4), a_pod("b", 4, vendor=ALIYUN))
    if seen:
        cluster.tell(gcu)
        cluster.tell(gpu)
    dispatcher = dispatcher_of((gcu, None), (gpu, None), cluster=cluster)
    for document in (pod_document("a", 4), pod_document("b", 4, vendor=ALIYUN)):
        await ask(dispatcher, document, "gcu", "gpu")

    assert (await dispatcher.bind(bind_body("b", "gpu"))).vendor == "aliyun"
    assert (await dispatcher.bind(bind_body("a", "gcu"))).vendor == "enflame"
    assert cluster.reads == (0 if seen else 2)
    assert ALIYUN.record.card_index in cluster.pods["default", "b"].metadata.annotations
    assert ENFLAME.record.card_index in cluster.pods["default", "a"].metadata.annotations
    assert (await dispatcher.bind(bind_body("b", "gpu"))).vendor == "aliyun"


class TestForged:
    """What a caller makes up is compared with what the API server has, and changes nothing."""

    @pytest.mark.parametrize("seen", [True, False])
    @pytest.mark.parametrize(
        ("document", "words"),
        [
            pytest.param(pod_document("ghost", 4), "pod default/ghost does not exist", id="no such pod"),
            pytest.param(pod_document("a", 4, uid="other"), "it is another pod", id="another uid"),
            pytest.param(pod_document("bound", 4), "is bound to node 'gcu' already", id="a pod that has a node"),
        ],
    )
    async def test_a_pod_that_is_not_as_the_body_says_passes_no_filter(
        self, document: Document, words: str, seen: bool
    ) -> None:
        state = state_of(a_node("gcu", 16))
        refused: list[SchedulingRequest] = []
        cluster = Cluster(a_pod("a", 4), a_pod("bound", 4, node="gcu", record=on_card(0, 4)))
        if seen:
            cluster.tell(state)
        filters = FilterService(state, named=NamedNodes(20), refusals=refused.append)
        dispatcher = dispatcher_of((state, filters), cluster=cluster)

        assert words in (await ask(dispatcher, document, "gcu"))["Error"]
        meta = document["metadata"]
        error = json.loads((await dispatcher.bind(bind_body(meta["name"], "other", meta["uid"]))).body)["Error"]
        assert "has not passed filter here lately" in error or "already" in error
        assert (cluster.bindings, refused) == ([], [])

    async def test_the_uid_of_one_pod_under_the_name_of_another_passes_no_filter(self) -> None:
        state, cluster = state_of(a_node("gcu", 16)), Cluster(a_pod("a", 4), a_pod("b", 4))
        cluster.tell(state)
        dispatcher = dispatcher_of((state, None), cluster=cluster)

        error = (await ask(dispatcher, pod_document("b", 4, uid="uid-a"), "gcu"))["Error"]
        assert error == "uid 'uid-a' is pod default/a, not default/b"

    @pytest.mark.parametrize("seen", [True, False])
    async def test_a_pod_that_asks_for_nothing_is_bound_nowhere_whatever_its_body_asks_for(self, seen: bool) -> None:
        state, cluster = state_of(a_node("gcu", 16)), Cluster(a_pod("plain", None))
        if seen:
            cluster.tell(state)
        dispatcher = dispatcher_of((state, None), cluster=cluster)

        assert (await ask(dispatcher, pod_document("plain", 4), "gcu"))["NodeNames"] == ["gcu"]
        assert (await ask(dispatcher, pod_document("plain", 4), "gcu"))["NodeNames"] == ["gcu"]
        answer = await dispatcher.bind(bind_body("plain", "gcu"))
        assert "has not passed filter here lately" in json.loads(answer.body)["Error"]
        assert (cluster.bindings, cluster.reads) == ([], 1)

    async def test_one_that_asks_for_zero_is_bound_only_where_filter_let_it_go(self) -> None:
        state, cluster = state_of(a_node("gcu", 16)), Cluster(a_pod("zero", 0))
        dispatcher = dispatcher_of((state, None), cluster=cluster)
        unasked = await dispatcher.bind(bind_body("zero", "gcu"))
        assert "has not passed filter here lately" in json.loads(unasked.body)["Error"]

        await ask(dispatcher, pod_document("zero", 0), "gcu")
        elsewhere = await dispatcher.bind(bind_body("zero", "tainted"))
        assert "node 'tainted', which filter did not name for it" in json.loads(elsewhere.body)["Error"]
        renamed = await dispatcher.bind(bind_body("b", "gcu", "uid-zero"))
        assert "pod default/b does not exist" in json.loads(renamed.body)["Error"]
        assert cluster.bindings == []

    @pytest.mark.parametrize("seen", [True, False])
    @pytest.mark.parametrize("said", [1, None])
    async def test_a_pod_is_judged_by_what_the_api_server_has_of_it(self, said: int | None, seen: bool) -> None:
        state, cluster = state_of(a_node("gcu", 16)), Cluster(a_pod("large", 20))
        if seen:
            cluster.tell(state)
        dispatcher = dispatcher_of((state, None), cluster=cluster)
        await ask(dispatcher, pod_document("large", said), "gcu")
        answer = await dispatcher.bind(bind_body("large", "gcu"))

        assert "has not passed filter" in json.loads(answer.body)["Error"]
        assert cluster.bindings == []

    @pytest.mark.parametrize("best", [20, None])
    async def test_a_pod_is_bound_only_where_filter_sent_it(self, best: int | None) -> None:
        state = state_of(a_node("gcu", 16), a_node("cordoned", 16))
        cluster = Cluster(a_pod("a", 4))
        cluster.tell(state)
        filters = FilterService(state, named=NamedNodes(best), refusals=lambda _: None)
        dispatcher = dispatcher_of((state, filters), cluster=cluster)
        unasked = await dispatcher.bind(bind_body("a", "gcu"))
        assert "has not passed filter here lately" in json.loads(unasked.body)["Error"]

        await ask(dispatcher, pod_document("a", 4), "gcu")
        elsewhere = await dispatcher.bind(bind_body("a", "cordoned"))
        assert "node 'cordoned', which filter did not name for it" in json.loads(elsewhere.body)["Error"]
        assert (elsewhere.result, elsewhere.reason) == ("refused", "declined")
        renamed = await dispatcher.bind(bind_body("b", "gcu", "uid-a"))
        assert "uid 'uid-a' is pod default/a" in json.loads(renamed.body)["Error"]
        assert cluster.bindings == []
        assert (await dispatcher.bind(bind_body("a", "gcu"))).result == "bound"
        assert (await dispatcher.bind(bind_body("a", "gcu"))).result == "bound", "asked again, the answer is the same"
        assert len(cluster.bindings) == 1

    async def test_a_pod_that_has_gone_takes_its_filter_with_it(self) -> None:
        state, cluster = state_of(a_node("gcu", 16)), Cluster(a_pod("a", 4))
        cluster.tell(state)
        dispatcher = dispatcher_of((state, None), cluster=cluster)
        await ask(dispatcher, pod_document("a", 4), "gcu")
        state.pod_deleted("uid-a")

        assert (await dispatcher.bind(bind_body("a", "gcu"))).result == "refused"
        assert cluster.bindings == []

    async def test_pods_that_no_one_has_seen_are_read_so_many_and_no_more(self) -> None:
        state, cluster = state_of(a_node("gcu", 16)), Cluster()
        dispatcher = dispatcher_of((state, None), cluster=cluster)
        errors = [
            (await ask(dispatcher, pod_document(f"ghost-{number}", 4), "gcu"))["Error"]
            for number in range(2 * BURST_READS)
        ]

        assert BURST_READS <= cluster.reads < 2 * BURST_READS
        assert "try again in a moment" in errors[-1]
        cluster.put(a_pod("a", 4))
        cluster.tell(state)
        assert (await ask(dispatcher, pod_document("a", 4), "gcu"))["NodeNames"] == ["gcu"], "known pods need no read"


class TestZero:
    """A pod that names our resource with quantity 0: kube-scheduler asks us about it, and leaves its binding to us."""

    @pytest.mark.parametrize("vendor", [ENFLAME, ALIYUN], ids=["own", "other"])
    @pytest.mark.parametrize("zero", [0, "0"])
    @pytest.mark.parametrize("sends", ["names", "nodes"])
    async def test_it_is_bound_to_any_node_without_a_record(self, vendor: Vendor, zero: object, sends: str) -> None:
        gcu, gpu = state_of(a_node("gcu", 16)), state_of(a_node("gpu", 16, vendor=ALIYUN), vendor=ALIYUN)
        cluster = Cluster(a_pod("zero", zero, vendor=vendor))
        cluster.tell(gcu)
        cluster.tell(gpu)
        dispatcher = dispatcher_of((gcu, None), (gpu, None), cluster=cluster)
        body = filter_body(pod_document("zero", zero, vendor=vendor), ["gcu", "plain"])
        if sends == "nodes":
            items = {"items": [{"metadata": {"name": name}} for name in ("gcu", "plain")]}
            body = json.dumps({**json.loads(body), "Nodes": items, "NodeNames": None}).encode()
        answer = dispatcher.filter(body)
        answer = answer if isinstance(answer, VerbAnswer) else await answer
        bound = await dispatcher.bind(bind_body("zero", "plain"))

        assert (answer.result, bound.result, bound.vendor) == ("not_asking", "bound", vendor.name)
        pod = cluster.pods["default", "zero"]
        assert (pod.spec.node_name, pod.metadata.annotations) == ("plain", {})
        assert not gcu.ledger.reserved | gpu.ledger.reserved

    async def test_its_whole_cards_count_as_named_too(self) -> None:
        state = state_of(a_node("gcu", 16))
        document = pod_document("zero")
        document["spec"]["containers"][0]["resources"] = {"limits": {ENFLAME.whole_card_resource: "0"}}
        cluster = Cluster(as_pod(document))
        dispatcher = dispatcher_of((state, None), cluster=cluster)
        await ask(dispatcher, document, "gcu")
        assert (await dispatcher.bind(bind_body("zero", "gcu"))).result == "bound"

    async def test_a_lost_answer_is_read_and_a_bound_pod_is_forgotten(self) -> None:
        state, cluster = state_of(a_node("gcu", 16)), Cluster(a_pod("zero", 0))
        cluster.mishaps.append(Mishap.LOST_AFTER)
        dispatcher = dispatcher_of((state, None), cluster=cluster)
        await ask(dispatcher, pod_document("zero", 0), "gcu")
        assert (await dispatcher.bind(bind_body("zero", "gcu"))).result == "bound"
        cluster.tell(state)
        assert state.named_without_record.get("uid-zero") is None
        assert not state.bound


async def test_a_pod_is_read_once_for_all_the_calls_about_it() -> None:
    state, cluster = state_of(a_node("gcu", 16)), Cluster(a_pod("a", 4))
    dispatcher = dispatcher_of((state, None), cluster=cluster)
    await ask(dispatcher, pod_document("a", 4), "gcu")
    assert isinstance(dispatcher.prioritize(filter_body(pod_document("a", 4), ["gcu"])), VerbAnswer)
    assert (await dispatcher.bind(bind_body("a", "gcu"))).result == "bound"

    assert cluster.reads == 1


async def test_a_pod_that_cannot_be_read_now_is_no_refusal() -> None:
    cluster = Cluster(a_pod("a", 4))
    cluster.read_mishaps.extend((Mishap.HANGS_AFTER, Mishap.HANGS_AFTER))
    dispatcher = dispatcher_of((state_of(a_node("gcu", 16)), None), cluster=cluster)

    answer = dispatcher.filter(filter_body(pod_document("a", 4), ["gcu"]))
    assert not isinstance(answer, VerbAnswer)
    assert (await answer).reason == "unavailable"
    scores = dispatcher.prioritize(filter_body(pod_document("a", 4), ["gcu"]))
    assert not isinstance(scores, VerbAnswer)
    with pytest.raises(RetryableError):
        await scores
    assert (await ask(dispatcher, pod_document("a", 4), "gcu"))["NodeNames"] == ["gcu"]


async def test_a_bind_that_fails_is_counted_for_the_vendor_whose_pod_it_is() -> None:
    gcu, gpu = state_of(a_node("gcu", 16)), state_of(a_node("gpu", 4, vendor=ALIYUN), vendor=ALIYUN)
    cluster = Cluster(a_pod("b", 4, vendor=ALIYUN), a_pod("c", 4, vendor=ALIYUN, node="gpu", record=on_card(0, 4)))
    gpu.pod_applied(cluster.pods["default", "b"])
    dispatcher = dispatcher_of((gcu, None), (gpu, None), cluster=cluster)
    await ask(dispatcher, pod_document("b", 4, vendor=ALIYUN), "gpu")
    cluster.tell(gpu)
    answer = await dispatcher.bind(bind_body("b", "gpu"))

    assert "needs 4 GB in one card" in json.loads(answer.body)["Error"]
    assert (answer.vendor, answer.result) == ("aliyun", "refused")


@pytest.mark.parametrize(("units", "seen"), [(0, False), (4, True)])
async def test_one_that_may_not_bind_says_nothing_in_the_protocols_place(units: int, seen: bool) -> None:
    state, cluster = state_of(a_node("gcu", 16)), Cluster(a_pod("a", units))
    client = cluster.client
    if seen:
        cluster.tell(state)
    services = replace(services_of(state, None, client), binds=BindService(state, client, Office(is_leader=False)))
    dispatcher = Dispatcher([services], client, SystemClock())
    await ask(dispatcher, pod_document("a", units), "gcu")
    with pytest.raises(NotLeader):
        await dispatcher.bind(bind_body("a", "gcu"))
    assert cluster.bindings == []


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
