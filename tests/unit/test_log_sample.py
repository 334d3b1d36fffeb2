"""The log lines that the documents show are lines that the programs write: their level, place, words and facts."""

from __future__ import annotations

import ast
import re

import pytest

from tests.documents import DOCS, ROOT, Document

LINE = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (?P<level>[A-Z]+) (?P<file>gcushare/[\w/]+\.py):\d+ (?P<message>.*)")
FACT = re.compile(r'(?<![^ ])(\w+)=(?:"(?:[^"\\]|\\.)*"|[^ ]+)')


def shown_lines(language: str) -> list[str]:
    document = Document.read(DOCS / language / "admin-guide.md")
    return [line for block in document.blocks() if "log" in block.info for line in block.text.splitlines()]


def written(file: str) -> set[tuple[str, str]]:
    """Level and words, before the first fact, of what a module's logger is called with."""
    found = set()
    for call in ast.walk(ast.parse((ROOT / "src" / file).read_text())):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "logger"), attr=level), args=arguments):
                for each in (part for argument in arguments for part in ast.walk(argument)):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        found.add((level.upper(), re.split(r" ?%s| \w+=%", each.value)[0]))
    return found


@pytest.mark.parametrize("language", ["", "zh"])
def test_each_line_shown_is_one_that_the_program_writes(language: str) -> None:
    lines = shown_lines(language)
    assert len(lines) > 8
    for line in lines:
        found = LINE.fullmatch(line)
        assert found is not None, line
        words = FACT.split(found["message"])[0].strip()
        assert (found["level"], words) in written(found["file"]), line


def test_the_lines_follow_one_pod_from_the_scheduler_to_its_card() -> None:
    words = [FACT.split(line.split(" ", 4)[4])[0].strip() for line in shown_lines("")]
    for each in ("answered", "bound", "pod changed", "preferring", "allocating", "allocated", "record written"):
        assert each in words
    assert {"old_annotations", "new_annotations", "ids"} <= set(
        FACT.findall("\n".join(shown_lines("")).replace("\n", " "))
    )


def test_the_lines_are_the_same_in_both_languages() -> None:
    assert shown_lines("") == shown_lines("zh")
