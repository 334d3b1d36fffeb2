from __future__ import annotations

from typing import Any

import pytest

from gcushare_playground.apiserver.objects import JsonObject, copy_of
from gcushare_playground.apiserver.patches import apply_json_patch, merge

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


def test_a_merge_patch_removes_with_null_merges_objects_and_replaces_lists() -> None:
    target = {"a": {"b": 1, "c": 2}, "l": [1, 2], "x": 1}
    assert merge(target, {"a": {"b": None, "d": 3}, "l": [9], "x": {"y": 1}}) == {
        "a": {"c": 2, "d": 3},
        "l": [9],
        "x": {"y": 1},
    }
