"""What docs/one-card.md shows, for the tests that type it."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML

from tests.documents import guide

INSTALL, LOOK, GROW, HUB = range(4)
"""The page's blocks of commands, in their order."""


def commands(block: int) -> str:
    """One block of commands."""
    return [each.text for each in guide("one-card.md").blocks() if each.info == ("sh",)][block]


def page_yaml(beginning: str) -> dict[str, Any]:
    """The one YAML block that begins so."""
    (found,) = (each.text for each in guide("one-card.md").blocks() if each.text.startswith(beginning))
    document: dict[str, Any] = YAML(typ="safe").load(found)
    return document
