"""The inspect documents stand in the manual's and Aliyun's form, to the order of their keys; explain speaks twice."""

from __future__ import annotations

import json
from pathlib import Path

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.ledger import Ledger
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.documents.explain import encode_explanation, explain_refused
from gcushare.wire.documents.explain_text import render_explanation
from gcushare.wire.documents.inspect import CLOSING, OPENING, encode_node, indent
from tests.builders import GIB_UNIT, cards, held

POD_1 = PodRef("2713cdab-6ec7-40be-a0e6-bf144efb0098", "kube-system", "gcushare-pod-1", "2022-09-06T07:40:43Z")
POD_2 = PodRef("62b070a4-0c77-4371-adfa-b20b17e90657", "kube-system", "gcushare-pod-2", "2022-09-06T08:28:09Z")


def manual_ledger() -> Ledger:
    """The manual's second scenario on two cards."""
    ledger = Ledger()
    ledger.set_node("sse-lab-inspur-048", cards(16, 16), GIB_UNIT)
    for when, (pod, units) in enumerate([(POD_1, 4), (POD_2, 8)]):
        grant = CardGrant(0, units)
        ledger.apply(Assignment(pod, "sse-lab-inspur-048", (grant,), assigned=True, assign_time_ns=when + 1))
    return ledger


def test_the_enflame_document_is_the_manuals() -> None:
    node = manual_ledger().nodes["sse-lab-inspur-048"]

    shown = indent(OPENING + encode_node(ENFLAME, node) + CLOSING.strip())
    assert shown == (Path(__file__).parents[1] / "recorded" / "manual-inspect.json").read_bytes()


def test_a_card_that_is_gone_still_shows_who_is_on_it() -> None:
    ledger = Ledger()
    ledger.set_node("node-1", cards(16, 16), GIB_UNIT)
    ledger.apply(held("a", "node-1", (1, 4)))
    ledger.set_node("node-1", cards(16), GIB_UNIT)
    document = json.loads(encode_node(ENFLAME, ledger.nodes["node-1"]))

    assert document["devices"][1] | {"pods": []} == {
        "id": 1,
        "totalGCU": 0,
        "usedGCU": 4,
        "availableGCU": 0,
        "pods": [],
        "health": "Unhealthy",
    }


def test_a_request_that_no_one_grants_is_explained_by_its_problem() -> None:
    document = explain_refused(POD_1, "quantity '1.5' is not a whole number")

    assert json.loads(encode_explanation(document))["canEverFit"] is False
    assert "1.5" in render_explanation(document)


def test_a_pod_whose_cards_no_one_can_tell_is_listed_next_to_the_cards_and_only_then() -> None:
    ledger = Ledger()
    ledger.set_node("node-1", cards(16), GIB_UNIT)
    for vendor in (ENFLAME, ALIYUN):
        assert b"unknownCards" not in encode_node(vendor, ledger.nodes["node-1"])
    ledger.apply(Assignment(POD_2, "node-1", ()))
    ledger.apply(Assignment(POD_1, "node-1", ()))
    for vendor in (ENFLAME, ALIYUN):
        assert json.loads(encode_node(vendor, ledger.nodes["node-1"]))["unknownCards"] == [
            {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid} for pod in (POD_1, POD_2)
        ]
