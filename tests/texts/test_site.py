"""The site of the documents: every page is in its navigation, and its tools are pinned and stay its own."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML

from tests.documents import GUIDES, ROOT

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
