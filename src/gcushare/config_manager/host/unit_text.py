"""Read a systemd unit's text as systemd does: settings, words and escapes, variables, environment files.

Pure; every word of a setting has its place in the text, so that it can be edited. Source: systemd.syntax(7),
systemd.service(5) and systemd.exec(5) of 252.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_ESCAPES |= {character: character for character in "\\\"'"}
_CODES = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z0-9_]+)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PERCENT = re.compile(r"%[%A-Za-z]")
"""systemd leaves a percent sign that no letter follows."""
_BLANK = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment of a section; ``offsets`` has the place in the text of every character of ``value``."""

    key: str
    value: str
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """One word of a setting; ``start`` and ``end`` are its place in the text, quotes included."""

    start: int
    end: int
    value: str


def settings_of(text: str) -> Iterator[Setting]:
    """Read the assignments of [Service] in order. Comment lines inside a continued line are left out."""
    here, end = "", 0
    value: list[str] = []
    offsets: list[int] = []
    for line in text.split("\n"):
        start, end = end, end + len(line) + 1
        content = line.rstrip("\r")
        if start == 0 and content.startswith("\ufeff"):
            start, content = 1, content[1:]
        if content.lstrip()[:1] in ("#", ";"):
            continue
        value += content
        offsets += range(start, start + len(content))
        if (len(content) - len(content.rstrip("\\"))) % 2:
            value[-1] = " "
            continue
        whole = "".join(value)
        name, equals, _ = whole.partition("=")
        if whole.strip().startswith("[") and whole.strip().endswith("]"):
            here = whole.strip()[1:-1]
        elif equals and here == "Service":
            at = len(name) + 1
            yield Setting(name.strip(), whole[at:], tuple(offsets[at:]))
        value, offsets = [], []


def words_of(setting: Setting) -> tuple[Argument, ...]:
    """Split a setting into its words, without quotes and escapes."""
    found = _split(setting.value, _unescape)
    return tuple(Argument(setting.offsets[start], setting.offsets[end - 1] + 1, word) for start, end, word in found)


def assigned(settings: Iterable[Setting], key: str) -> list[str]:
    """List the words of all assignments of ``key``; an empty one removes those before it."""
    words: list[str] = []
    for setting in settings:
        if setting.key == key:
            found = [word.value for word in words_of(setting)]
            words = [*words, *found] if found else []
    return words


def split_variable(value: str) -> list[str]:
    """Split a variable's value that stands as ``$NAME`` in a command line: quotes go, escapes stand for themselves."""
    return [word for _, _, word in _split(value, lambda text: (text[:1], 1))]


def _split(text: str, unescape: Callable[[str], tuple[str, int]]) -> Iterator[tuple[int, int, str]]:
    at, start, word, quote = 0, -1, "", ""
    while at < len(text):
        character = text[at]
        if start < 0:
            if character in _BLANK:
                at += 1
                continue
            start = at
        if character == "\\" and at + 1 < len(text):
            part, length = unescape(text[at + 1 :])
            word += part
            at += 1 + length
            continue
        if not quote and character in _BLANK:
            yield start, at, word
            start, word = -1, ""
        elif character == quote:
            quote = ""
        elif not quote and character in "\"'":
            quote = character
        else:
            word += character
        at += 1
    if start >= 0:
        yield start, len(text), word


def _unescape(text: str) -> tuple[str, int]:
    """Read the escape that follows a backslash; systemd leaves one that it does not know as it stands."""
    if text[0] in _ESCAPES:
        return _ESCAPES[text[0]], 1
    code = _CODES.match(text)
    if code is not None:
        digits = next(group for group in code.groups() if group is not None)
        number = int(digits, 8 if code[4] else 16)
        if 0 < number <= 0x10FFFF:
            return chr(number), len(code[0])
    return "\\" + text[0], 1


def without_specifiers(text: str) -> tuple[str, str]:
    """Write ``%%`` as one; returns the text, and why it is not known, empty if it is: what ``%n`` stands for is not."""
    specifier = next((each[0] for each in _PERCENT.finditer(text) if each[0] != "%%"), None)
    if specifier is not None:
        return text, f"gcushare does not read systemd's {specifier}: write the value out"
    return text.replace("%%", "%"), ""


def with_variables(word: str, variables: Mapping[str, str | None]) -> tuple[list[str], str]:
    """Replace ``${NAME}`` within a word, and a word ``$NAME`` by the words of its value.

    Returns the words, and why they are not known, empty if they are. A variable that is not set is empty.
    """
    unknown: list[str] = []

    def value_of(name: str) -> str:
        value = variables.get(name, "")
        if value is None:
            unknown.append(name)
        return value or ""

    if word.startswith("$") and word[1:2] not in ("", "{", "$"):
        words = split_variable(value_of(word[1:]))
    else:
        words = [_VARIABLE.sub(lambda match: value_of(match[1]) if match[1] else "$", word)]
    if unknown:
        return [word], f"the value of ${unknown[0]} is not in the unit's files: write it out"
    return words, ""


def parse_environment_file(text: str) -> dict[str, str]:
    """Read a file that ``EnvironmentFile=`` names: ``NAME=value`` in lines, with quotes and comments."""
    variables = {}
    text = text.replace("\r\n", "\n") + "\n"
    at = 0
    while at < len(text):
        line_end = text.index("\n", at)
        line = text[at:line_end].lstrip()
        if not line or line[0] in "#;":
            # A comment goes on in the next line like a value.
            while text[line_end - 1] == "\\" and line_end + 1 < len(text) and line:
                line_end = text.index("\n", line_end + 1)
            at = line_end + 1
            continue
        equals = text.find("=", at, line_end)
        if equals < 0:
            at = line_end + 1
            continue
        value, after = _environment_value(text, equals + 1)
        name = text[at:equals].strip()
        if _NAME.match(name):
            variables[name] = value
        at = after
    return variables


def _environment_value(text: str, at: int) -> tuple[str, int]:
    """Read a value up to the end of its line; quotes count at its beginning, and again right behind quotes."""
    value, quote, is_plain, kept = "", "", False, 0
    while at < len(text):
        character, following = text[at], text[at + 1 : at + 2]
        at += 1
        if character == "\\" and quote != "'":
            at += 1
            if following != "\n":
                value += following if not quote or following in '"\\`$' else "\\" + following
            is_plain, kept = is_plain or not quote, len(value)
        elif quote:
            if character == quote:
                quote, kept = "", len(value)
            else:
                value += character
        elif character == "\n":
            break
        elif not is_plain and character in "\"'":
            quote = character
        elif is_plain or character not in _BLANK:
            is_plain = True
            value += character
            kept = kept if character in _BLANK else len(value)
    return value[:kept], at
