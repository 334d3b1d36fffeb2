"""What else the verbs report with their answers: results and reasons for metrics, log lines, listeners, time limits."""

from __future__ import annotations

import json
import logging

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.preempt import MAX_VICTIMS, MAX_VICTIMS_OF_NODE
from gcushare.scheduler_extender.verbs.request_metrics import VerbAnswer
from gcushare.wire.objects import Pod
from tests.extender_objects import Document, a_node, a_pod, filter_body, on_card, pod_document, preempt_body, state_of
from tests.played_api import Asked
from tests.unit.extender_cluster import Cluster
from tests.unit.extender_desk import Desk, dispatcher_of


class Timed(Cluster):
    """Keeps the time limit of each read."""

    def __init__(self, *pods: Pod) -> None:
        super().__init__(*pods)
        self.limits: list[float] = []

    async def answer(self, asked: Asked) -> Pod | None:
        self.limits.append(asked.timeout_s or 0)
        return await super().answer(asked)


def facts(answer: VerbAnswer) -> tuple[str, str, str]:
    return answer.result, answer.vendor, answer.reason


@pytest.mark.parametrize(
    ("document", "nodes", "filtered", "prioritized", "scores"),
    [
        pytest.param(pod_document("p", 4), ["n"], ("fits", ""), "scored", [2], id="fits"),
        pytest.param(pod_document("p", 17), ["n"], ("refused", "too_large"), "scored", [0], id="refused"),
        pytest.param(pod_document("p", 4), [], ("empty", ""), "scored", [], id="no nodes"),
        pytest.param(pod_document("p", None), ["n"], ("not_asking", ""), "not_asking", [0], id="not asking"),
    ],
)
def test_an_answer_says_what_became_of_the_call(
    document: Document, nodes: list[str], filtered: tuple[str, str], prioritized: str, scores: list[int]
) -> None:
    desk = Desk((state_of(a_node("n", 16)), None))
    result, vendor, reason = facts(desk.filter(filter_body(document, nodes)))
    assert (result, vendor) == (filtered[0], "enflame")
    assert bool(reason) is bool(filtered[1]), reason
    answer = desk.prioritize(filter_body(document, nodes))
    assert (answer.result, answer.vendor) == (prioritized, "enflame")
    assert [each["Score"] for each in json.loads(answer.body)] == scores


@pytest.mark.parametrize(("units", "reason"), [("1.5", "malformed"), (1 << 40, "declined")])
async def test_a_pod_that_cannot_get_a_card_is_an_error_with_its_reason(
    units: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gcushare")
    document = pod_document("p", units)
    answer = Desk((state_of(a_node("n", 16)), None)).filter(filter_body(document, ["n"]))
    assert facts(answer) == ("error", "enflame", reason)
    assert [each.startswith('filter refused reason="pod default/p: ') for each in caplog.messages] == [True]


async def test_pods_that_are_read_are_scored_within_a_time_limit() -> None:
    cluster = Timed(a_pod("p"))
    dispatcher = dispatcher_of((state_of(a_node("n", 16), a_node("m", 8)), None), cluster=cluster)
    answer = dispatcher.prioritize(filter_body(pod_document("p", 4), ["n", "m"]))
    assert not isinstance(answer, VerbAnswer)
    assert {each["Host"]: each["Score"] for each in json.loads((await answer).body)}.keys() == {"n", "m"}
    assert [0 < limit <= 5 for limit in cluster.limits] == [True]
    with pytest.raises(RemoteContractError, match=r"^the Pod of the request has no metadata.uid, name or namespace$"):
        await dispatcher.prioritize(filter_body(pod_document("", 4), ["n"]))  # type: ignore[misc]


class TestPreempt:
    @staticmethod
    def state() -> VendorState:
        state = state_of(a_node("n1", 16), a_node("n2", 16))
        for name, node in (("a", "n1"), ("b", "n2")):
            state.pod_applied(a_pod(name, 16, node=node, record=on_card(0, 16)))
        return state

    @pytest.mark.parametrize(
        ("units", "victim", "result"), [(8, "a", "fits"), (17, "x", "refused"), (None, "a", "not_asking")]
    )
    async def test_the_result_says_whether_a_node_is_left(self, units: int | None, victim: str, result: str) -> None:
        body = preempt_body(pod_document("p", units, priority=1), {"n1": [victim]})
        assert facts(await Desk((self.state(), None)).preempt(body)) == (result, "enflame", "")

    @pytest.mark.slow
    async def test_the_shortest_proposals_are_weighed_first_and_those_left_out_are_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "gcushare")
        many = [f"x{number}" for number in range(MAX_VICTIMS_OF_NODE)]
        long = {f"a{number}": many for number in range(-(-MAX_VICTIMS // MAX_VICTIMS_OF_NODE))}
        body = preempt_body(pod_document("p", 8, priority=1), long | {"n2": ["b"]})
        answer = await Desk((self.state(), None)).preempt(body)
        assert list(json.loads(answer.body)["NodeNameToMetaVictims"]) == ["n2"]
        (line,) = [each for each in caplog.messages if each.startswith("preempt left nodes out pod=default/p reason=")]
        assert f"1 of {len(long) + 1} proposed nodes were left out" in line
