from __future__ import annotations

import pytest

from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.selectors import Selector, parse_fields, parse_labels, read_selector

POD: JsonObject = {
    "metadata": {"name": "a", "namespace": "x", "labels": {"app": "web", "tier": "front", "weight": "7"}},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", True, id="nothing asked"),
        pytest.param("app=web", True, id="equal"),
        pytest.param("app==web", True, id="double equal"),
        pytest.param("app=db", False, id="another value"),
        pytest.param("app!=db", True, id="unequal"),
        pytest.param("missing!=x", True, id="a missing label is unequal to everything"),
        pytest.param("app in (db, web)", True, id="in"),
        pytest.param("app notin (db,web)", False, id="not in"),
        pytest.param("missing notin (a)", True, id="a missing label is in no set"),
        pytest.param("tier", True, id="exists"),
        pytest.param("!tier", False, id="absent"),
        pytest.param("app in (web,db),tier=front,!canary", True, id="all terms hold"),
        pytest.param("app in (web,db),tier=back", False, id="one term fails"),
        pytest.param("weight>6", True, id="greater"),
        pytest.param("weight<7", False, id="not less"),
        pytest.param("app>6", False, id="a label that is no number is not greater"),
    ],
)
def test_a_label_selector_matches_what_it_says(text: str, expected: bool) -> None:
    assert Selector(labels=parse_labels(text)).matches(POD) is expected


@pytest.mark.parametrize("text", ["a b", "app in web", "=x", "a=b=c", "weight>x", "app in (a"])
def test_a_label_selector_that_cannot_be_read_is_a_bad_request_naming_it(text: str) -> None:
    with pytest.raises(ApiFailure) as caught:
        parse_labels(text)
    assert caught.value.code == 400
    assert repr(text) in caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("spec.nodeName=n1", True, id="equal"),
        pytest.param("spec.nodeName==n2", False, id="another value"),
        pytest.param("spec.nodeName!=n1", False, id="unequal"),
        pytest.param("status.podIP=", True, id="an absent field is empty"),
        pytest.param("spec.hostNetwork=true", True, id="a boolean"),
        pytest.param("status.phase!=Failed,spec.nodeName=n1", True, id="all terms hold"),
        pytest.param("metadata.namespace=x,metadata.name=a", True, id="metadata"),
    ],
)
def test_a_field_selector_matches_what_it_says(text: str, expected: bool) -> None:
    assert Selector(fields=parse_fields(text, BY_NAME["pods"])).matches(POD) is expected


def test_a_field_that_kube_apiserver_cannot_select_on_is_refused() -> None:
    with pytest.raises(ApiFailure, match=r"field label not supported: spec.containers"):
        parse_fields("spec.containers=x", BY_NAME["pods"])


def test_a_cluster_scoped_kind_has_no_namespace_to_select_on() -> None:
    with pytest.raises(ApiFailure, match=r"field label not supported: metadata.namespace"):
        parse_fields("metadata.namespace=x", BY_NAME["nodes"])


def test_an_escaped_comma_belongs_to_the_value() -> None:
    (term,) = parse_fields(r"metadata.name=a\,b", BY_NAME["pods"])
    assert term.value == "a,b"


def test_a_selector_document_joins_labels_and_expressions() -> None:
    selector = read_selector(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["back"]},
                {"key": "canary", "operator": "DoesNotExist"},
                {"key": "weight", "operator": "Gt", "values": ["3"]},
            ],
        }
    )
    assert selector is not None
    assert selector.matches(POD)
    assert not selector.matches({"metadata": {"labels": {"app": "web", "canary": "", "weight": "9"}}})


def test_no_selector_document_is_not_a_selector_of_everything() -> None:
    assert read_selector(None) is None
