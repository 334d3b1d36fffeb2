"""Parts of messages that several programs write in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime


def some_names(names: Sequence[str], most: int = 3) -> str:
    """The first ``most`` of many names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def index_text(cards: Iterable[int]) -> str:
    """Card indexes as records and logs show them: ``0,3``."""
    return ",".join(map(str, cards))


_OF_ONE = {"are": "is", "were": "was", "have": "has", "do": "does"}


def counted(number: int, word: str, verb: str = "") -> str:
    """A number of things, and what they do: ``1 pod``, ``1 pod waits``, ``2 pods wait``."""
    if number != 1:
        word = f"{word}s"
    elif verb:
        verb = _OF_ONE.get(verb, f"{verb}s")
    return f"{number} {word} {verb}".rstrip()


def one_line(text: str) -> str:
    """Make foreign text safe for a terminal: it may hold line breaks and escape sequences."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Replace each character that is not printable by a blank, so that columns stay where they are."""
    return "".join(char if char.isprintable() else " " for char in text)


_LAST_SECOND = 253_402_300_799
"""The end of the year 9999, the last one that ``datetime`` can represent."""


def utc_text(seconds: int) -> str:
    """A time, in seconds since the epoch, as people and Kubernetes write it: ``2026-11-22T03:00:00Z``."""
    return datetime.fromtimestamp(min(max(0, seconds), _LAST_SECOND), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def span(seconds: float) -> str:
    """A length of time as people say it."""
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} s"
