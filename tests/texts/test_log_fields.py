"""Log calls leave the form of their fields to ``core.log_fields``, so that the support bundle can cut them."""

from __future__ import annotations

import ast
import re

from tests.source import modules


def log_calls(tree: ast.Module) -> list[ast.Call]:
    return [
        call
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in {"log", "logger"}
    ]


def test_no_log_call_formats_a_field_itself() -> None:
    calls = {name: log_calls(tree) for name, tree in modules().items()}
    assert sum(map(len, calls.values())) > 100
    own = [
        f"{name}:{text.lineno} {text.value!r}"
        for name, found in calls.items()
        for call in found
        for argument in call.args
        for text in ast.walk(argument)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and re.search(r"\w=(%|\{|$)", text.value)
    ]
    assert own == [], "use gcushare.core.log_fields.fields, which quotes what needs it"
