"""Flags on the command line of a container, as pods carry it."""

from __future__ import annotations

from collections.abc import Sequence


def flag_of(words: Sequence[str], name: str) -> str | None:
    """The value of the last ``--name=value`` or ``--name value`` of a command line; ``true`` for a bare switch."""
    found: str | None = None
    for position, word in enumerate(words):
        written, equals, value = word.partition("=")
        if written.lstrip("-").replace("_", "-") != name or not written.startswith("-"):
            continue
        following = words[position + 1] if position + 1 < len(words) else "-"
        found = value if equals else ("true" if following.startswith("-") else following)
    return found
