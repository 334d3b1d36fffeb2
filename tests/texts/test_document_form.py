"""The documents' form: narrow lines, a digest on top, decision records of twenty lines."""

from __future__ import annotations

import re
import unicodedata

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


def wide_lines(document: Document) -> list[str]:
    return [line for line in document.text.splitlines() if columns(line) > WIDEST_LINE]


def test_no_line_is_wider_than_a_terminal() -> None:
    documents = [each for each in every_document() if each.path != CHANGELOG]
    assert [(each.name, line) for each in documents for line in wide_lines(each)] == []


def test_a_wide_line_is_found() -> None:
    """The negative control: in prose, in tables, in commands, and in what a program printed."""
    wide = "x" * 121
    text = f"{wide}\n| {wide} |\n{'卡' * 61}\n{'卡' * 60}\n```\n{wide}\n```\n```text\n{wide}\n```\n"
    assert wide_lines(Document(DOCS / "page.md", text)) == [wide, f"| {wide} |", "卡" * 61, wide, wide]


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
