"""The extender protocol's bytes: kube-scheduler's form is read by the short way, every other form by the long one."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.assignments import PodRef
from gcushare.core.errors import RemoteContractError
from gcushare.scheduler_extender.verbs.filter import DISTRUST_REASON, KEPT_REASON, STARTING_REASON
from gcushare.vendors import VENDORS
from gcushare.wire import extender_api as extender
from gcushare.wire import extender_preempt as preempt
from tests.extender_objects import Document, filter_body, pod_document

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
            arguments = decode(body)
            assert str(arguments.pod) == "default/a"
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


def test_whole_nodes_are_answered_as_they_came_and_names_as_names() -> None:
    items = [{"metadata": {"name": name}, "spec": {"odd": [1.50, None]}} for name in ("a", "b")]
    whole = {"Pod": json.loads(HEAD), "Nodes": {"items": items}, "NodeNames": None}
    asked = extender.decode_asked_nodes(extender.FilterDecoder().decode(json.dumps(whole).encode()), MOST)

    assert list(asked.names) == ["a", "b"]
    answer = json.loads(asked.encode_answer(["b"]))
    assert (answer["Nodes"]["kind"], answer["Nodes"]["items"], answer["NodeNames"]) == ("NodeList", items[1:], None)


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


def test_no_text_for_the_scheduler_has_a_percent_sign() -> None:
    """It takes an extender's text as a format."""
    assert json.loads(extender.encode_error("'100%' is not a number of cards: %s"))["Error"] == (
        "'100\uff05' is not a number of cards: \uff05s"
    )
    reasons = [KEPT_REASON, STARTING_REASON, DISTRUST_REASON]
    reasons += [text for each in VENDORS for text in (each.refused_reason, each.refused_whole_reason)]
    assert not any("%" in reason for reason in reasons)
