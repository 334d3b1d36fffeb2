"""Parts of messages that several programs write in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime


def some_names(names: Sequence[str], most: int) -> str:
    """The first ``most`` of many names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def index_text(cards: Iterable[int]) -> str:
    """Card indexes as records and logs show them: ``0,3``."""
    return ",".join(map(str, cards))


_LAST_SECOND = 253_402_300_799
"""The end of the year 9999, the last one that ``datetime`` can represent."""


def utc_text(seconds: int) -> str:
    """A time, in seconds since the epoch, as people and Kubernetes write it: ``2026-11-22T03:00:00Z``."""
    return datetime.fromtimestamp(min(max(0, seconds), _LAST_SECOND), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
