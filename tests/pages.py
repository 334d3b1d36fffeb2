"""What a page shows, for the tests that type it: its blocks of commands, and its YAML."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML

from tests.documents import guide


def commands(page: str, block: int) -> str:
    """One block of commands, counted from 0."""
    return [each.text for each in guide(page).blocks() if each.info == ("sh",)][block]


def page_text(page: str, beginning: str) -> str:
    """The one YAML block that begins so."""
    (found,) = (each.text for each in guide(page).blocks() if each.text.startswith(beginning))
    return found


def page_yaml(page: str, beginning: str) -> dict[str, Any]:
    """The document of the one YAML block that begins so."""
    document: dict[str, Any] = YAML(typ="safe").load(page_text(page, beginning))
    return document


def recipe(name: str) -> tuple[dict[str, Any], ...]:
    """The objects of a block of docs/recipes.md, by the name in its first comment."""
    return tuple(YAML(typ="safe").load_all(page_text("recipes.md", f"# {name}\n")))


def recipe_names() -> list[str]:
    """The names of all YAML blocks there, each of which has one."""
    blocks = [block for block in guide("recipes.md").blocks() if block.info[:1] == ("yaml",)]
    return [block.text.partition("\n")[0].removeprefix("# ") for block in blocks]
