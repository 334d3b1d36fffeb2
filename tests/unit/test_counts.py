"""A number and what it counts agree in every message: 1 pod, 2 pods."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from gcushare.core.wording import counted
from tests.documents import ROOT

COUNTED = re.compile(
    r" (?:(?:more|other|whole|free|device) )*"
    r"(?:allocations|cards|certificates|claims|containers|devices|files|ids|lines|moves|namespaces|nodes|places|plugins|"
    r"pods|ports|processes|readers|records|replicas|requests|seeds|templates|units)\b"
)
NO_NUMBER = re.compile(r"_?[A-Z_0-9]+|.*(?:device_word|\.name|names\.command|device|verb|url)|word|change|counted.*")
"""Constants, which are not 1, and words before a noun."""
AT_LEAST_TWO = {
    ("src/gcushare/device_plugin/claims/claim_pods.py", "count"),
    ("src/gcushare/cli/simulate/comparing.py", "low"),
    ("src/gcushare/cli/simulate/bounds.py", "sorted(sizes)"),
    ("playground/src/gcushare_playground/apiserver/claim_admission.py", "cards"),
    ("playground/src/gcushare_playground/scheduler/fitting.py", "node_count"),  # kube-scheduler's own words
    ("playground/src/gcushare_playground/demo/expecting.py", "len(self.capacity)"),
    ("src/gcushare/wire/documents/explain.py", "cards"),
}


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 pods wait"), (1, "1 pod waits"), (2, "2 pods wait"), (21, "21 pods wait")],
)
def test_a_count_has_its_noun_and_its_verb(number: int, shown: str) -> None:
    assert counted(number, "pod", "wait") == shown


@pytest.mark.parametrize(("verb", "of_one"), [("are", "is"), ("were", "was"), ("have", "has"), ("do", "does")])
def test_the_irregular_verbs(verb: str, of_one: str) -> None:
    assert (counted(1, "pod", verb), counted(3, "pod", verb)) == (f"1 pod {of_one}", f"3 pods {verb}")


def counts(source: str) -> Iterator[str]:
    """The expressions that stand before a plural noun in texts."""
    for text in (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.JoinedStr)):
        for value, after in zip(text.values, text.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                shown = ast.unparse(value.value)
                if COUNTED.match(str(after.value)) and not NO_NUMBER.fullmatch(shown):
                    yield shown


def test_every_message_counts_by_the_one_function() -> None:
    trees = ("src/gcushare", "limits/src", "playground/src/gcushare_playground/demo")
    found = [
        (path.relative_to(ROOT).as_posix(), each)
        for tree in trees
        for path in sorted((ROOT / tree).rglob("*.py"))
        for each in counts(path.read_text())
    ]
    assert [each for each in found if each not in AT_LEAST_TWO] == [], "write counted(number, 'pod')"


def test_a_plural_after_any_number_is_found() -> None:
    assert list(counts("f'{n} pods' f'{len(x)} ' 'more nodes' f'{MOST} cards'")) == ["n", "len(x)"]
