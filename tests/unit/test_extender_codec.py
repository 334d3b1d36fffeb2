"""The extender protocol's bytes, in every form that a scheduler or a stranger may send; and what is kept of them."""

from __future__ import annotations

import json
import re
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.errors import RemoteContractError
from gcushare.core.ledger import Ledger
from gcushare.core.node_rules import NodePlace, NodeRules, Obstacle, Taint
from gcushare.core.preemption.choice import Proposed
from gcushare.scheduler_extender.metrics import VendorCollector
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.filter import DISTRUST_REASON, KEPT_REASON, STARTING_REASON
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS
from gcushare.wire import extender_api as extender
from gcushare.wire import extender_preempt as preempt
from gcushare.wire.documents.explain import encode_explanation, explain_refused
from gcushare.wire.documents.explain_text import render_explanation
from gcushare.wire.documents.inspect import CLOSING, OPENING, decode_document, encode_node, indent
from gcushare.wire.dra.claims import POD_WITH_CLAIMS, RESOURCE_CLAIM
from gcushare.wire.objects import NODE, POD
from tests.builders import GIB_UNIT, asks, cards, held
from tests.extender_objects import Document, filter_body, node_document, on_card, pod_document, state_of
from tests.unit.extender_cluster import Cluster
from tests.unit.extender_desk import services_of

MOST = 1_000
HEAD = b'{"metadata":{"name":"pod-a","namespace":"default","uid":"u"}}'
NAMES = ["node-1", "node-2", 'odd "name"', "naïve"]


def decode(body: bytes) -> extender.FilterArguments:
    return extender.FilterDecoder().decode(body)


def names_of(body: bytes) -> list[str]:
    asked = extender.decode_asked_nodes(decode(body), MOST)
    assert asked.items is None
    return list(asked.names)


@pytest.mark.slow
@given(st.lists(st.text(max_size=12)), st.dictionaries(st.text(max_size=20), st.text(max_size=20)))
def test_whatever_the_pod_and_the_names_contain_they_are_read_as_json_says(
    names: list[str], annotations: dict[str, str]
) -> None:
    pod = pod_document("a", annotations=annotations)
    for separators in ((",", ":"), (", ", ": ")):
        for ascii_only in (True, False):
            document = {"Pod": pod, "Nodes": None, "NodeNames": names}
            body = json.dumps(document, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
            assert str(decode(body).pod) == "default/a"
            assert names_of(body) == list(dict.fromkeys(names))


@pytest.mark.parametrize(
    "trap",
    [
        pytest.param({"annotations": {"NodeNames": '["other"]', "a": ',"NodeNames":["other"]'}}, id="as text"),
        pytest.param({"managedFields": [{"NodeNames": ["other"]}, {"a": 1, "NodeNames": ["other"]}]}, id="as a key"),
    ],
)
def test_a_pod_that_looks_like_the_list_of_names_does_not_become_it(trap: Document) -> None:
    pod = pod_document("a")
    pod["metadata"] |= trap

    assert names_of(filter_body(pod, NAMES)) == NAMES


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"not json", id="not JSON"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"NodeNames":["a"]}', id="no pod"),
        pytest.param(b'{"Pod":{},"NodeNames":["a"', id="cut off"),
        pytest.param(b'{"Pod":[],"Nodes":null,"NodeNames":["a"]}', id="pod is a list"),
        pytest.param(b'{"Pod":{"metadata":{"name":"\xff"}},"NodeNames":null}', id="not UTF-8"),
        pytest.param(b'{"Pod":{"metadata":' + b"[" * 100_000, id="nested without end"),
    ],
)
def test_what_is_not_the_protocol_is_refused_with_the_place(body: bytes) -> None:
    with pytest.raises(RemoteContractError, match="is not filter arguments"):
        decode(body)


@pytest.mark.parametrize("raw", [b'["a",1]', b'{"a":1}', b'["a"', b'["\xff"]', b'["a"],"More":["b"]'])
def test_what_is_no_list_of_names_is_refused(raw: bytes) -> None:
    with pytest.raises(RemoteContractError, match="is not a list of node names"):
        extender.decode_asked_nodes(extender.FilterArguments(PodRef("", "", ""), None, raw, b""), MOST)


def test_bind_arguments_need_every_field() -> None:
    whole = {"PodName": "a", "PodNamespace": "default", "PodUID": "u", "Node": "node-1"}
    assert extender.decode_bind_arguments(json.dumps(whole).encode()).pod == PodRef("u", "default", "a")
    for name in whole:
        with pytest.raises(RemoteContractError):
            extender.decode_bind_arguments(json.dumps({**whole, name: ""}).encode())
        with pytest.raises(RemoteContractError):
            extender.decode_bind_arguments(
                json.dumps({key: value for key, value in whole.items() if key != name}).encode()
            )


def test_both_forms_of_victims_are_the_same_proposal() -> None:
    meta = {"n1": {"Pods": [{"UID": "uid-a"}, {"UID": "uid-b"}], "NumPDBViolations": 1}, "n2": {"Pods": None}}
    full = {"n1": {"Pods": [pod_document("a"), pod_document("b")], "NumPDBViolations": 1}, "n2": {"Pods": []}}
    pod = pod_document("p")

    by_meta, by_full = (
        preempt.decode_preempt_arguments(msgspec.json.encode({"Pod": pod, key: value}), MOST).proposals
        for key, value in (("NodeNameToMetaVictims", meta), ("NodeNameToVictims", full))
    )

    for proposals in (by_meta, by_full):
        proposal = {name: each.read() for name, each in proposals.items()}
        assert proposal["n1"].uids == ["uid-a", "uid-b"]
        assert proposal["n1"].violations == 1
        assert not proposal["n2"].uids
    null = preempt.decode_preempt_arguments(msgspec.json.encode({"Pod": pod, "NodeNameToVictims": {"n1": None}}), MOST)
    assert null.proposals == {}


@pytest.mark.parametrize("key", ["NodeNameToMetaVictims", "NodeNameToVictims"])
def test_victims_that_cannot_be_read_are_an_error_of_their_node(key: str) -> None:
    body = msgspec.json.encode({"Pod": pod_document("p"), key: {"n1": {"Pods": [7]}, "n2": {"Pods": []}}})
    proposals = preempt.decode_preempt_arguments(body, MOST).proposals

    assert not proposals["n2"].read().uids
    with pytest.raises(RemoteContractError, match="is not victims"):
        proposals["n1"].read()


def test_a_pod_written_as_in_the_request_before_is_read_once_and_any_other_again() -> None:
    decoder = extender.FilterDecoder()

    def ask(name: str, names: str) -> extender.FilterArguments:
        pod = HEAD.replace(b"pod-a", name.encode())
        return decoder.decode(b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, names.encode()))

    first, same, other, again = ask("a", '["n1","n2"]'), ask("a", '["n2"]'), ask("b", '["n1"]'), ask("a", "[]")
    assert same.pod is first.pod
    assert [each.pod.name for each in (first, same, other, again)] == ["a", "a", "b", "a"]
    assert [each.node_names for each in (first, same, other, again)] == [b'["n1","n2"]', b'["n2"]', b'["n1"]', b"[]"]


def test_a_request_that_cannot_be_read_leaves_the_next_one_alone() -> None:
    decoder = extender.FilterDecoder()
    good = b'{"Pod":%b,"Nodes":null,"NodeNames":["n1"]}' % HEAD
    assert decoder.decode(good).pod.name == "pod-a"
    with pytest.raises(RemoteContractError):
        decoder.decode(b'{"Pod":{"metadata":{"name":7}},"Nodes":null,"NodeNames":["n1"]}')
    assert decoder.decode(good).pod.name == "pod-a"


def test_keys_of_a_later_scheduler_are_left_out() -> None:
    more = {"More": [{"NodeNames": ["other"]}]}
    body = json.dumps({**more, "Pod": json.loads(HEAD), "Later": more, "NodeNames": ["n1"]}).encode()
    assert names_of(body) == ["n1"]
    call = {"PodName": "a", "PodNamespace": "default", "PodUID": "u", "Node": "n1"}
    assert extender.decode_bind_arguments(json.dumps(call | more).encode()).node == "n1"
    victims = {"n1": {"Pods": [{"UID": "v", **more}], "NumPDBViolations": 2, **more}}
    found = preempt.decode_preempt_arguments(
        json.dumps({"Pod": json.loads(HEAD), "NodeNameToMetaVictims": victims, **more}).encode(), MOST
    )
    assert found.proposals["n1"].read() == Proposed(["v"], 2)


def test_no_text_for_the_scheduler_has_a_percent_sign() -> None:
    """It takes an extender's text as a format."""
    assert json.loads(extender.encode_error("'100%' is not a number of cards: %s"))["Error"] == (
        "'100\uff05' is not a number of cards: \uff05s"
    )
    reasons = [KEPT_REASON, STARTING_REASON, DISTRUST_REASON]
    reasons += [text for each in VENDORS for text in (each.refused_reason, each.refused_whole_reason)]
    assert not any("%" in reason for reason in reasons)


NUMBERS = re.compile(r"(?<![\w.])\d+(?![\w.])")
NODES = json.dumps(node_document("bad", 16, 16))
PODS = json.dumps(pod_document("bad", "4", node="bad", record=on_card(0, 4)))
OTHER_NUMBERS = st.sampled_from(
    ["0", "-1", "1" + "0" * 18, str(2**63 - 1), str(2**63), "1" + "0" * 400, "1e400", "1.5", "[" * 1500, '"x"', "null"]
)  # fmt: skip


@st.composite
def with_other_numbers(draw: st.DrawFn, text: str) -> bytes:
    """A document in which some numbers, also in annotations and quantities, were changed."""
    for _ in range(draw(st.integers(1, 3))):
        found = draw(st.sampled_from(list(NUMBERS.finditer(text))))
        text = text[: found.start()] + draw(OTHER_NUMBERS).replace('"', "") + text[found.end() :]
    return text.encode()


def figures(state: VendorState) -> str:
    registry = CollectorRegistry()
    registry.register(VendorCollector([services_of(state, None, Cluster().client)]))
    return generate_latest(registry).decode()


@pytest.mark.slow
@given(st.lists(with_other_numbers(NODES), max_size=2), st.lists(with_other_numbers(PODS), max_size=3))
def test_figures_and_documents_can_be_made_of_whatever_nodes_and_pods_say(
    nodes: list[bytes], pods: list[bytes]
) -> None:
    state = state_of(NODE.read(json.dumps(node_document("good", 16)).encode()))
    for number, body in enumerate(nodes):
        with suppress(RemoteContractError):
            state.node_applied(NODE.read(body.replace(b'"bad"', b'"bad-%d"' % number)))
    for number, body in enumerate(pods):
        with suppress(RemoteContractError):
            state.pod_applied(POD.read(body.replace(b'"uid-bad"', b'"uid-%d"' % number).replace(b'"bad"', b'"bad-0"')))

    assert 'gcushare_units_free{unit="1",vendor="enflame"}' in figures(state)
    assert state.ledger.nodes["good"].fits(asks(16))
    document = b",".join(encode_node(ENFLAME, each) for each in state.ledger.nodes.values())
    assert "good" in [each.name for each in decode_document(OPENING + document + CLOSING)]


WORDS = [f"k{number:05}" for number in range(20_000)]
LARGE = {
    "nodeSelector": dict.fromkeys(WORDS, ""),
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": WORDS}]}]
            }
        }
    },
    "tolerations": [{"key": word, "operator": "Exists"} for word in WORDS],
    "schedulingGates": [{"name": word} for word in WORDS],
    "resourceClaims": [{"name": word, "resourceClaimName": word} for word in WORDS],
    "initContainers": [{"name": word, "image": ""} for word in WORDS],
}
LARGE_METADATA = {
    "labels": dict.fromkeys(WORDS, ""),
    "annotations": {f"gcushare.io/{word}": "" for word in WORDS},
    "ownerReferences": [{"kind": "K" * 600_000, "name": "n" * 600_000, "uid": "u", "controller": True}],
}
"""The text of an owner has no limit but that of the object."""


@pytest.mark.slow
@pytest.mark.parametrize("part", [*LARGE, *LARGE_METADATA])
def test_little_stays_in_memory_of_a_pod_as_large_as_an_object_may_be(part: str) -> None:
    document = pod_document("large", 4)
    document["spec"]["resourceClaims"] = [{"name": "a", "resourceClaimName": "theirs"}]
    if part in LARGE:
        document["spec"][part] = LARGE[part]
    else:
        document["metadata"][part] = LARGE_METADATA[part]
    text = json.dumps(document)
    state = state_of(NODE.read(json.dumps(node_document("n", 16)).encode()))
    state.pod_applied(POD_WITH_CLAIMS.read(text.replace("uid-large", "uid-before")))
    tracemalloc.start()
    state.pod_applied(POD_WITH_CLAIMS.read(text))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert state.find_waiting("uid-large") is not None
    assert kept < 256 * 1024


@pytest.mark.parametrize(
    "part",
    [
        {"capacity": {"requests": {"memory": "4Gi", **dict.fromkeys(WORDS, "1")}}},
        {"capacity": {"requests": {"memory": "4Gi", "a" * 1_200_000: "1"}}},
        {"tolerations": LARGE["tolerations"]},
    ],
    ids=["many amounts", "a long name", "many tolerations"],
)
def test_little_stays_in_memory_of_a_claim_as_large_as_an_object_may_be(part: dict[str, Any]) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": ENFLAME.claims.memory_class, **part}}
    claim = {
        "metadata": {"name": "large", "namespace": "default", "uid": "uid-large"},
        "spec": {"devices": {"requests": [request]}},
    }
    text, state = json.dumps(claim), state_of()
    state.claim_applied(RESOURCE_CLAIM.read(text.replace("uid-large", "uid-before")))
    tracemalloc.start()
    state.claim_applied(RESOURCE_CLAIM.read(text))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "uid-large" in state.claims.uids
    assert kept < 64 * 1024


@pytest.mark.slow
def test_rules_that_are_too_many_to_be_read_say_nothing_of_a_node() -> None:
    place = NodePlace("n", {"zone": "a"}, (Taint("full", "", "NoSchedule"),))
    few, many = (NodeRules(tuple((word, "") for word in WORDS[:count])).bounded() for count in (1_000, 2_000))
    assert few.find_obstacle(place) == Obstacle("taint full:NoSchedule")
    assert many.find_obstacle(place) is None


POD_1 = PodRef("2713cdab-6ec7-40be-a0e6-bf144efb0098", "kube-system", "gcushare-pod-1", "2022-09-06T07:40:43Z")
POD_2 = PodRef("62b070a4-0c77-4371-adfa-b20b17e90657", "kube-system", "gcushare-pod-2", "2022-09-06T08:28:09Z")


def test_the_enflame_document_is_the_manuals() -> None:
    """The manual's second scenario on two cards."""
    ledger = Ledger()
    ledger.set_node("sse-lab-inspur-048", cards(16, 16), GIB_UNIT)
    for when, (pod, units) in enumerate([(POD_1, 4), (POD_2, 8)]):
        grant = CardGrant(0, units)
        ledger.apply(Assignment(pod, "sse-lab-inspur-048", (grant,), assigned=True, assign_time_ns=when + 1))
    shown = indent(OPENING + encode_node(ENFLAME, ledger.nodes["sse-lab-inspur-048"]) + CLOSING.strip())
    assert shown == (Path(__file__).parents[1] / "recorded" / "manual-inspect.json").read_bytes()


def test_a_card_that_is_gone_still_shows_who_is_on_it() -> None:
    ledger = Ledger()
    ledger.set_node("node-1", cards(16, 16), GIB_UNIT)
    ledger.apply(held("a", "node-1", (1, 4)))
    ledger.set_node("node-1", cards(16), GIB_UNIT)
    gone = json.loads(encode_node(ENFLAME, ledger.nodes["node-1"]))["devices"][1]
    assert [gone[key] for key in ("id", "totalGCU", "usedGCU", "availableGCU")] == [1, 0, 4, 0]
    assert gone["health"] == "Unhealthy"


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
