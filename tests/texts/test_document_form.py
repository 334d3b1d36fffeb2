"""Form and words: narrow lines, digests, decision records of twenty lines, a site with every page, plain words."""

from __future__ import annotations

import re
import runpy
import unicodedata
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML

from tests.documents import DOCS, GUIDES, ROOT, Document, every_document, guide

WIDEST_LINE = 120
"""Columns; a Chinese character takes two."""

LONGEST_DIGEST = 10
LONGEST_RECORD = 20
RECORDS = sorted((DOCS / "adr").glob("*.md"))
AFTER_DIGEST = re.compile(r"\n(?=## |```|- | {4})")
"""Where the opening prose ends: at a heading, code or a list."""

CHANGELOG = ROOT / "CHANGELOG.md"


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


def test_no_line_is_wider_than_a_terminal() -> None:
    texts = {each.name: each.text.splitlines() for each in every_document() if each.path != CHANGELOG}
    assert [(name, line) for name, lines in texts.items() for line in lines if columns(line) > WIDEST_LINE] == []


def test_every_page_opens_with_a_digest() -> None:
    """What the page is for and where else to go, in a few lines above its first section."""
    for page in (guide(name, chinese=chinese) for name in GUIDES for chinese in (False, True)):
        title, _, _, _, *rest = AFTER_DIGEST.split(page.text, maxsplit=1)[0].splitlines()
        digest = [line for line in rest if line.strip()]
        assert title.startswith("# "), page.name
        assert 2 <= len(digest) <= LONGEST_DIGEST, page.name
        assert list(Document(page.path, "\n".join(digest)).links()) != [], page.name


def test_a_decision_record_keeps_its_number() -> None:
    """Each has one of its own; those of records that were merged or are out of date are not given again."""
    numbers = [int(path.name[:4]) for path in RECORDS]
    assert len(set(numbers)) == len(numbers)
    assert not {12, 25, 31, 33, 34, 35} & set(numbers)


def test_a_decision_record_is_short_and_says_what_would_change_it() -> None:
    for path in RECORDS:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith(f"# {int(path.name[:4])}. "), path.name
        assert len(lines) <= LONGEST_RECORD, path.name
        heads = [found[1] for line in lines if (found := re.match(r"\*\*([^*]+)\.\*\*", line))]
        assert heads == ["What", "Figure", "What would change it"], path.name


SITE = ROOT / "site"
PIN = re.compile(r"[A-Za-z0-9._-]+==[0-9][\w.]*")


def pages(found: Any) -> Iterator[str]:
    match found:
        case str():
            yield found
        case list():
            for each in found:
                yield from pages(each)
        case dict():
            yield from pages([*found.values()])


def test_every_guide_is_in_the_navigation_in_both_languages() -> None:
    config = YAML(typ="safe", pure=True).load((SITE / "mkdocs.yml").read_text().replace("!ENV ", ""))
    listed = list(pages(config["nav"]))
    assert len(listed) == len(set(listed))
    assert {*GUIDES, *(f"zh/{name}" for name in GUIDES)} <= {*listed}
    assert {each.removeprefix("zh/") for each in listed} - {*GUIDES} == {
        *("index.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
    }


def test_what_belongs_to_an_item_is_indented_by_four_columns_a_level() -> None:
    """As Python-Markdown reads lists: nested items, text and code stay with their item, other code stays as it is."""
    indented_by_four = runpy.run_path(str(SITE / "lists.py"))["indented_by_four"]
    made = indented_by_four(
        "1. first\n\n       code\n\n   text\n2. second\n   - inner\n     more\n\n"
        "- a\n  ```sh\n  - b\n  ```\n\n    more\n\n```\n- c\n```\n\n    - code\n      code"
    )
    assert made == (
        "1. first\n\n        code\n\n    text\n\n2. second\n    - inner\n        more\n\n"
        "- a\n    ```sh\n    - b\n    ```\n\n      more\n\n```\n- c\n```\n\n    - code\n      code"
    )


def test_its_tools_are_pinned_and_are_no_dependency_of_ours() -> None:
    lines = (SITE / "requirements.txt").read_text().splitlines()[1:]
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    assert any(line.startswith("mkdocs-material==") for line in lines)
    for name in ("pyproject.toml", "constraints.txt", "hashes.txt"):
        assert "mkdocs" not in (ROOT / name).read_text()


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
    "tests/texts/test_document_form.py": frozenset(HARD_WORDS),
}
"""Words that a file may have all the same: they are on the wire, or the file quotes them."""


def test_sentences_are_plain() -> None:
    tops = [ROOT / tree for tree in TREES]
    assert [top for top in tops if not top.exists()] == []
    found = [
        f"{name}:{number}: {word}"
        for top in tops
        for path in ([top] if top.is_file() else sorted(top.rglob("*")))
        if path.is_file() and path.suffix in SUFFIXES and "egg-info" not in str(path)
        for name in [path.relative_to(ROOT).as_posix()]
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        for word in map(str.lower, HARD.findall(line))
        if word not in ALLOWED.get(name, ())
    ]
    assert found == [], "write it in plain words: next to, with, in addition to, whose, again, anyone who"
