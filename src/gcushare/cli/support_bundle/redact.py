"""Keeps secrets and foreign text out of a bundle's texts; pure. If unsure, it masks.

``Redactor`` masks what looks secret. ``own_words`` removes foreign text from our programs' messages: our errors quote
the invalid value, and a quotation stays only if it is a name of this cluster. Unquoted foreign text (an API server's
message, an exec plugin's stderr, a library's exception) is always removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import partial
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
        return _cut_texts(value, self.text, is_secret_name)


def _cut_texts(value: Any, cut: Callable[[str], str], is_secret: Callable[[str], bool] = lambda _key: False) -> Any:
    """Cut every text of a JSON value, also the keys, and mask the texts in fields with a secret's name."""
    match value:
        case str():
            return cut(value)
        case dict():
            return {
                cut(str(key)): MASK
                if inner and isinstance(inner, str) and is_secret(str(key))
                else _cut_texts(inner, cut, is_secret)
                for key, inner in value.items()
            }
        case list() | tuple():
            return [_cut_texts(inner, cut, is_secret) for inner in value]
        case _:
            return value


ELLIPSIS = "…"
_MAX_CHARS = 2048
# An apostrophe within a word opens and closes nothing.
_QUOTED = re.compile(
    r"(?<!\w)'((?:[^'\\]|\\.){0,2048})'(?!\w)|\"((?:[^\"\\]|\\.){0,2048})\"|(?<![\w'\"])['\"](?=[^'\"]*\Z)(.*)\Z",
    re.DOTALL,
)
_FOREIGN_TAIL = re.compile(
    r"\b(was answered \d{3} [A-Za-z ]{1,40}|reported \d{3} [A-Za-z ]{0,40}|ended with status -?\d{1,3}|"
    r"(?!Client|Connection|Timeout|OSError|SSL|Server)[A-Z]\w{0,60}(?:Error|Exception)): (.*)\Z",
    re.DOTALL,
)
"""How our errors introduce foreign text: ``kube.errors``, ``kube.connection.exec_plugin``, and a library's exception by
its class. Errors of network libraries about a connection are kept, because a reader needs them most.
"""
_FORBIDDEN = re.compile(
    r"[\w./-]{1,200}(?: \"[^\"]{0,300}\")? is forbidden: User \"[^\"]{1,500}\" cannot "
    r"(get|list|watch|create|update|patch|delete|deletecollection|bind|impersonate) "
    r"(resource \"[a-z]{1,60}(?:/[a-z]{1,60})?\" in API group \"[a-z0-9.-]{0,100}\").*",
    re.DOTALL,
)
"""The API server's refusal by RBAC. Verb, resource and group are what our program asked for."""
_USER = re.compile(r"\bsystem:[\w.@-][\w:.@-]{0,500}")
_MAIL_ADDRESS = re.compile(r"[\w.+-]{1,100}@[\w-]{1,100}(?:\.[\w-]{1,100}){1,8}(?![\w.-]*:)")
_QUERY = re.compile(r"(?<=[\w/])\?[^\s\"']{1,2048}")
_WORD = re.compile(r"[^\s\"'(),;<>\[\]{}…]{16,}")
_RUN = re.compile(r"[A-Za-z0-9]{16,}")
_UUID = re.compile(r"(?:[A-Z]{2,8}-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LEAST_MIXED_CHARS, _LEAST_LETTERS = 20, 32


def own_words(text: str, names: Collection[str] = ()) -> str:
    """Remove foreign quotations from a message of ours; ``names`` and known RBAC refusals stay."""
    short = text[:_MAX_CHARS]
    tail = ""
    if found := _FOREIGN_TAIL.search(short):
        refused = _FORBIDDEN.fullmatch(found[2])
        tail = (
            f'{found[1]}: User "{ELLIPSIS}" cannot {refused[1]} {refused[2]}' if refused else f"{found[1]}: {ELLIPSIS}"
        )
        short = short[: found.start()]

    def cut_quotation(found: re.Match[str]) -> str:
        quoted = next((part for part in found.groups() if part is not None), "")
        return found[0] if quoted in names else f"{found[0][0]}{ELLIPSIS}{found[0][0]}"

    def cut_word(found: re.Match[str]) -> str:
        return ELLIPSIS if found[0] not in names and _is_opaque(found[0]) else found[0]

    short = _QUOTED.sub(cut_quotation, short)
    short = _QUERY.sub(f"?{ELLIPSIS}", _MAIL_ADDRESS.sub(ELLIPSIS, _USER.sub(f"system:{ELLIPSIS}", short)))
    short = _WORD.sub(cut_word, short) + tail
    return short if len(text) <= _MAX_CHARS else f"{short}{ELLIPSIS}"


def has_foreign_tail(text: str) -> bool:
    """Whether foreign text begins in this text, so that the text after it may be foreign too."""
    return _FOREIGN_TAIL.search(text) is not None


def _is_opaque(word: str) -> bool:
    """Whether a word looks like a token: long and of mixed characters, unlike names that people choose."""
    word = _UUID.sub("", word)
    has_digit = any(char.isdecimal() for char in word)
    has_both_cases = word != word.lower() and word != word.upper()
    if has_digit and has_both_cases and len(word) >= _LEAST_MIXED_CHARS:
        return True
    return any(
        len(run) >= _LEAST_LETTERS or (not run.isdecimal() and any(char.isdecimal() for char in run))
        for run in _RUN.findall(word)
    )


def own_document(value: Any, names: Collection[str] = ()) -> Any:
    """Cut every text of a JSON value of ours with ``own_words``."""
    return _cut_texts(value, partial(own_words, names=names))
