"""Masks secrets in texts and documents; pure. If unsure, it masks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MASK = "********"
LEAST_KNOWN_CHARS = 4
"""Shorter known values are words such as ``on`` that occur everywhere."""

_CERTAIN_WORD = (
    r"passw(?:or)?d|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key|key[-_]?data|credential|"
    r"authorization|cookie|session[-_]?id"
)
_SECRET_WORD = rf"(?:{_CERTAIN_WORD}|token)"
_SECRET_NAME = re.compile(_SECRET_WORD, re.IGNORECASE)
# A language model counts tokens, and its tokenizer is not secret: TOKENIZERS_PARALLELISM, MAX_TOKENS.
_CERTAIN_NAME = re.compile(_CERTAIN_WORD, re.IGNORECASE)
_TOKEN_NAME = re.compile(r"token(?!iz)", re.IGNORECASE)
_SWITCH = re.compile(r"true|false|null|none", re.IGNORECASE)
_QUANTITY = re.compile(r"[+-]?\d{0,9}(?:\.\d{0,9})?")
# Every repetition is bounded: a log's line of a megabyte must not take minutes.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        MASK,
    ),
    # JSON Web Tokens, service accounts' among them: three parts of base64; the first is a JSON object.
    (re.compile(r"(?<![\w-])eyJ[\w-]{8,4096}\.[\w-]{8,8192}(?:\.[\w-]{0,8192})?"), MASK),
    (re.compile(r"\b(Bearer|Basic)(\s{1,8})[\w.~+/=-]{4,8192}", re.IGNORECASE), rf"\1\2{MASK}"),
    (re.compile(r"\b([a-z][a-z0-9+.-]{0,20}://)[^/\s@\"']{1,512}@", re.IGNORECASE), rf"\1{MASK}@"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), MASK),
    (
        re.compile(
            rf"({_SECRET_WORD}[\w.-]{{0,64}}\\?[\"']?\s{{0,8}}[:=]\s{{0,8}})"
            r"(\\?\"(?:[^\"\\]|\\.){0,4096}\\?\"|'[^']{0,4096}'|[^\s\"',;&}\]]{1,8192})",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
)


def is_secret_name(name: str) -> bool:
    """Whether the value of a field with this name is probably secret."""
    return _SECRET_NAME.search(name) is not None


def is_secret_anywhere(name: str, value: str) -> bool:
    """Whether to mask a variable's value everywhere, also without its name next to it.

    Switches and settings of language models are not: such words and numbers occur everywhere.
    """
    if _SWITCH.fullmatch(value):
        return False
    if _CERTAIN_NAME.search(name):
        return True
    return _TOKEN_NAME.search(name) is not None and _QUANTITY.fullmatch(value) is None


class Redactor:
    """Masks what looks secret, and ``known`` values wherever they occur."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        # The longest first: one secret may begin with another.
        values = sorted({each for each in known if len(each) >= LEAST_KNOWN_CHARS}, key=len, reverse=True)
        self._known = re.compile("|".join(re.escape(value) for value in values)) if values else None

    def text(self, text: str) -> str:
        """Redact free text, such as a log."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def document(self, value: Any) -> Any:
        """Redact a JSON value: every text, and each non-empty text in a field with a secret's name."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {
                    self.text(str(key)): MASK
                    if inner and isinstance(inner, str) and is_secret_name(str(key))
                    else self.document(inner)
                    for key, inner in value.items()
                }
            case list() | tuple():
                return [self.document(inner) for inner in value]
            case _:
                return value
