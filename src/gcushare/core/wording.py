"""Words for messages that several programs write alike."""

from __future__ import annotations

from collections.abc import Sequence


def some_names(names: Sequence[str], most: int) -> str:
    """The first ``most`` of many names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
