"""The ``key=value`` fields of a log line, for every layer.

Use `fields` for every value in a log line, above all for text that this project did not write. Quotes mark where a
value ends, so that readers of lines (the support bundle's filter, ``grep``) never mistake a part of it for something
else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_VALUE_CHARS = 2048
"""Longest value in a log line. A longer one, such as a pod's manifest, is cut."""

_PLAIN_WORD = re.compile(r"[!#-&(-<>-\[\]-~]+")
"""Printable ASCII without space, quotes, equals sign and backslash: the fast path of `quote`."""


def escape(text: str) -> str:
    """Escape what a terminal or a reader of lines could interpret: control characters, line breaks, bidi marks."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def cut_text(text: str, max_chars: int) -> str:
    """Cut a text to ``max_chars`` and append how many characters are missing."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}...(+{len(text) - max_chars})"


def quote(value: object) -> str:
    """Format a value so that a reader finds its end: bare if it is one plain word, else in double quotes."""
    text = cut_text(str(value), MAX_VALUE_CHARS)
    if _PLAIN_WORD.fullmatch(text) or (text and text.isprintable() and not set(text) & set(" \"'=\\")):
        return text
    return '"' + escape(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a log line. They are formatted only if the line is written."""

    pairs: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        return " ".join(f"{key}={quote(value)}" for key, value in self.pairs)


def fields(**values: object) -> Fields:
    """Collect the fields of a log line, in order. A value of None is left out.

    Pass it as the argument of ``%s``: ``logger.info("bound %s", fields(pod="ns/name", node=node, card=0))``.
    """
    return Fields(tuple((key, value) for key, value in values.items() if value is not None))
