"""A number and what it counts agree in every message: 1 pod, 2 pods."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from gcushare.core.wording import counted

COUNTED = re.compile(
    r" (?:(?:more|other|whole|free|device) )*"
    r"(?:allocations|cards|certificates|claims|containers|devices|files|ids|lines|moves|namespaces|nodes|places|plugins|"
    r"pods|ports|processes|readers|records|replicas|requests|seeds|templates|units)\b"
)
NO_NUMBER = re.compile(r"_?[A-Z_0-9]+|.*(?:device_word|\.name|names\.command|device|verb|url)|word|change|counted.*")
"""Constants, which are not 1, and words before a noun."""


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 pods wait"), (1, "1 pod waits"), (2, "2 pods wait"), (21, "21 pods wait")],
)
def test_a_count_has_its_noun_and_its_verb(number: int, shown: str) -> None:
    assert counted(number, "pod", "wait") == shown


def counts(source: str) -> Iterator[str]:
    """The expressions that stand before a plural noun in texts."""
    for text in (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.JoinedStr)):
        for value, after in zip(text.values, text.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                shown = ast.unparse(value.value)
                if COUNTED.match(str(after.value)) and not NO_NUMBER.fullmatch(shown):
                    yield shown
