"""The YAML of docs/recipes.md: each block by the name in its first comment."""

from __future__ import annotations

import functools
import re
from typing import Any

from ruamel.yaml import YAML

from tests.documents import guide

_NAME = re.compile(r"# ([a-z-]+)\n")


@functools.cache
def recipe(name: str) -> tuple[dict[str, Any], ...]:
    """The objects of a recipe."""
    found = [block.text for block in guide("recipes.md").blocks() if block.text.startswith(f"# {name}\n")]
    assert len(found) == 1, f"{len(found)} blocks of docs/recipes.md are named {name!r}"
    return tuple(YAML(typ="safe").load_all(found[0]))


def recipe_names() -> list[str]:
    """The names of all YAML blocks.

    Raises:
        AssertionError: a block has no name.
    """
    blocks = [block for block in guide("recipes.md").blocks() if block.info[:1] == ("yaml",)]
    names = [_NAME.match(block.text) for block in blocks]
    assert all(names), "a YAML block of docs/recipes.md begins without a name"
    return [found[1] for found in names if found is not None]
