"""Fields of log lines: quoted wherever a reader could lose their end, so that the support bundle can cut them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields
from gcushare.kube.errors import FailedRequest, HttpFailure, error_of_answer
from tests.documents import ROOT

FORBIDDEN = (
    'pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope: '
    'RBAC: role "payroll" not found'
)
SECRETS = ("alice", "payroll")


def forbidden(request: str) -> GcushareError:
    """The error that an API server's refusal becomes."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden"}
    return error_of_answer(
        FailedRequest(request, False), HttpFailure(403, json.dumps(body | {"message": FORBIDDEN}).encode())
    )


@pytest.mark.parametrize("value", ['a "b" c', "it's b", "two words", "", "a=b", "back\\slash", "line\nbreak"])
def test_a_value_ends_where_its_quotes_end(value: str) -> None:
    line = f"{fields(first=value, second=1)}"
    quoted, rest = re.fullmatch(r'first="((?:[^"\\]|\\.)*)" (.*)', line).groups()  # type: ignore[union-attr]
    assert rest == "second=1"
    assert quoted.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\") == value


def log_calls(file: Path) -> list[ast.Call]:
    return [
        call
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in {"log", "logger"}
    ]


# It reads all of the source.
@pytest.mark.slow
def test_no_log_call_formats_a_field_itself() -> None:
    calls = {file: log_calls(file) for file in sorted((ROOT / "src").rglob("*.py"))}
    assert sum(map(len, calls.values())) > 100
    own = [
        f"{file.relative_to(ROOT)}:{text.lineno} {text.value!r}"
        for file, found in calls.items()
        for call in found
        for argument in call.args
        for text in ast.walk(argument)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and re.search(r"\w=(%|\{|$)", text.value)
    ]
    assert own == [], "use gcushare.core.log_fields.fields, which quotes what needs it"
