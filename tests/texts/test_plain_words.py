"""Words that make readers read a sentence twice stay out of source, tests, charts and English documents."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.documents import ROOT

HARD_WORDS = (
    *("anew", "beside", "believed", "believes", "besides", "for ever", "lest", "made again", "nobody", "of which"),
    *("spoilt", "strike", "thereby", "to blame", "told", "whoever", "whom"),
)
HARD = re.compile(rf"\b(?:{'|'.join(HARD_WORDS)})\b(?<!because of which)(?! (?:card|container|pod)s?\b)", re.IGNORECASE)
"""Not inside a longer name, since an underscore or a digit joins its words; ``of which pod`` may be a question."""

TREES = (
    *("src", "tests", "docs", "deploy", "simulation", "playground", "scripts", "benchmarks", "limits", ".ci"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
)
SUFFIXES = frozenset({"", ".c", ".css", ".h", ".html", ".js", ".json", ".md", ".py", ".sh", ".tpl", ".toml", ".yaml"})

ALLOWED = {
    "src/gcushare/cli/explain/explanation_text.py": frozenset({"beside"}),  # explain's own key
    "tests/protocol/test_claims_in_one_view.py": frozenset({"beside"}),  # explain's own key
    "tests/protocol/test_inspect_explain.py": frozenset({"beside"}),  # explain's own key
    "tests/texts/test_plain_words.py": frozenset(HARD_WORDS),
}
"""Words that a file may have all the same: they are on the wire, or the file quotes them."""


def hard_words(text: str) -> Iterator[tuple[int, str]]:
    """The lines that have such a word, counted from 1, each with the word."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in HARD.finditer(line):
            yield number, found.group().lower()


def test_sentences_are_plain() -> None:
    tops = [ROOT / tree for tree in TREES]
    assert [top for top in tops if not top.exists()] == []
    found = [
        f"{name}:{number}: {word}"
        for top in tops
        for path in ([top] if top.is_file() else sorted(top.rglob("*")))
        if path.is_file() and path.suffix in SUFFIXES and "egg-info" not in str(path)
        for name in [path.relative_to(ROOT).as_posix()]
        for number, word in hard_words(path.read_text(encoding="utf-8", errors="replace"))
        if word not in ALLOWED.get(name, ())
    ]
    assert found == [], "write it in plain words: next to, with, in addition to, whose, again, anyone who"
