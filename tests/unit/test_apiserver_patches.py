from __future__ import annotations

from typing import Any

import pytest

from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.objects import JsonObject, copy_of
from gcushare_playground.apiserver.patches import apply_json_patch, merge
from gcushare_playground.apiserver.strategic import strategic_merge

NODE: JsonObject = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}, "list": [1, 2, 3]}}


@pytest.mark.parametrize(
    ("operation", "path", "expected"),
    [
        pytest.param(
            {"op": "add", "path": "/status/capacity/enflame.com~1gcu-count", "value": "8"},
            ("status", "capacity"),
            {"cpu": "4", "enflame.com/gcu-count": "8"},
            id="a slash in a key is written ~1",
        ),
        pytest.param(
            {"op": "add", "path": "/status/list/1", "value": 9}, ("status", "list"), [1, 9, 2, 3], id="insert"
        ),
        pytest.param(
            {"op": "add", "path": "/status/list/-", "value": 9}, ("status", "list"), [1, 2, 3, 9], id="append"
        ),
        pytest.param({"op": "remove", "path": "/status/list/0"}, ("status", "list"), [2, 3], id="remove from a list"),
        pytest.param({"op": "remove", "path": "/status/list"}, ("status",), {"capacity": {"cpu": "4"}}, id="remove"),
        pytest.param(
            {"op": "replace", "path": "/status/list/2", "value": 0}, ("status", "list"), [1, 2, 0], id="replace"
        ),
        pytest.param({"op": "copy", "from": "/metadata/name", "path": "/kind"}, ("kind",), "n", id="copy"),
        pytest.param({"op": "move", "from": "/status/list/0", "path": "/one"}, ("one",), 1, id="move"),
        pytest.param(
            {"op": "test", "path": "/nowhere", "value": None}, ("metadata",), {"name": "n"}, id="test for nothing"
        ),
    ],
)
def test_a_json_patch_operation_does_what_the_rfc_says(
    operation: JsonObject, path: tuple[str, ...], expected: Any
) -> None:
    before = copy_of(NODE)
    found: Any = apply_json_patch(NODE, [operation])
    for step in path:
        found = found[step]
    assert found == expected
    assert before == NODE, "the patched object must be a new one"


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        pytest.param({"op": "test", "path": "/metadata/name", "value": "other"}, 422, id="a test that fails"),
        pytest.param({"op": "remove", "path": "/metadata/labels/x"}, 422, id="remove what is missing"),
        pytest.param({"op": "replace", "path": "/metadata/x", "value": 1}, 422, id="replace what is missing"),
        pytest.param({"op": "add", "path": "/metadata/labels/x", "value": "y"}, 422, id="add below what is missing"),
        pytest.param({"op": "add", "path": "/status/list/9", "value": 1}, 422, id="insert past the end"),
        pytest.param({"op": "burn", "path": "/metadata"}, 400, id="an unknown operation"),
        pytest.param({"op": "add"}, 400, id="no path"),
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused_whole(operation: JsonObject, code: int) -> None:
    with pytest.raises(ApiFailure) as caught:
        apply_json_patch(NODE, [{"op": "add", "path": "/metadata/first", "value": 1}, operation])
    assert caught.value.code == code
    assert "first" not in NODE["metadata"]


def test_a_json_patch_must_be_a_list() -> None:
    with pytest.raises(ApiFailure) as caught:
        apply_json_patch(NODE, {"op": "add"})
    assert caught.value.code == 400


def test_a_merge_patch_removes_with_null_merges_objects_and_replaces_lists() -> None:
    target = {"a": {"b": 1, "c": 2}, "l": [1, 2], "x": 1}
    assert merge(target, {"a": {"b": None, "d": 3}, "l": [9], "x": {"y": 1}}) == {
        "a": {"c": 2, "d": 3},
        "l": [9],
        "x": {"y": 1},
    }


CONTAINERS: JsonObject = {
    "spec": {
        "containers": [
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80}]},
            {"name": "b", "image": "1", "args": ["old"]},
        ],
        "tolerations": [{"key": "one"}],
    },
    "metadata": {"finalizers": ["f1"]},
}


@pytest.mark.parametrize(
    ("patch", "path", "expected"),
    [
        pytest.param(
            {"spec": {"containers": [{"name": "b", "image": "2"}]}},
            ("spec", "containers", 1),
            {"name": "b", "image": "2", "args": ["old"]},
            id="a container is found by its name",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}},
            ("spec", "containers", 0, "env"),
            [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
            id="a variable is added",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]}},
            ("spec", "containers", 0, "ports"),
            [{"containerPort": 80, "protocol": "UDP"}],
            id="a container's port is found by containerPort",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "b", "args": ["new"]}]}},
            ("spec", "containers", 1, "args"),
            ["new"],
            id="a list of plain values is replaced",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "two"}]}}, ("spec", "tolerations"), [{"key": "two"}], id="atomic list"
        ),
        pytest.param(
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "b"}],
                    "containers": [{"name": "a", "$patch": "delete"}],
                }
            },
            ("spec", "containers"),
            [{"name": "b", "image": "1", "args": ["old"]}],
            id="an element is deleted by its key",
        ),
        pytest.param(
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}},
            ("spec", "containers"),
            [{"name": "c"}],
            id="a list is replaced on demand",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["f2", "f1"]}},
            ("metadata", "finalizers"),
            ["f1", "f2"],
            id="finalizers are a set",
        ),
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["f1"]}},
            ("metadata", "finalizers"),
            [],
            id="set removal",
        ),
        pytest.param(
            {"metadata": {"$retainKeys": ["name"], "name": "x"}},
            ("metadata",),
            {"name": "x"},
            id="only retained keys stay",
        ),
        pytest.param({"metadata": {"$patch": "replace", "name": "x"}}, ("metadata",), {"name": "x"}, id="replace"),
        pytest.param({"metadata": {"$patch": "delete"}}, ("metadata",), {}, id="delete"),
    ],
)
def test_a_strategic_merge_patch_merges_lists_by_key(patch: JsonObject, path: tuple[Any, ...], expected: Any) -> None:
    before = copy_of(CONTAINERS)
    found: Any = strategic_merge(CONTAINERS, patch)
    for step in path:
        found = found[step]
    assert found == expected
    assert before == CONTAINERS


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"spec": {"containers": [{"image": "2"}, {"name": "a"}]}}, id="element without its key"),
        pytest.param({"spec": {"$patch": "explode"}}, id="unknown directive"),
    ],
)
def test_a_strategic_merge_patch_that_cannot_be_read_is_a_bad_request(patch: JsonObject) -> None:
    with pytest.raises(ApiFailure) as caught:
        strategic_merge(CONTAINERS, patch)
    assert caught.value.code == 400


def test_conditions_merge_by_type() -> None:
    status = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Other", "status": "True"}]}
    merged = strategic_merge(status, {"conditions": [{"type": "Ready", "status": "True"}]})
    assert merged["conditions"] == [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]
