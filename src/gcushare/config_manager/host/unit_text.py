"""Read a systemd unit's text as systemd does: settings, words, variables, environment files.

What a command line means, with the characters before its program: ``systemd_unit``.

Pure; every word of a setting has its place in the text, so that it can be edited. Of what is rare and not read, such as
an escape, the result says that its value is not known. Source: systemd.syntax(7), systemd.service(5) and
systemd.exec(5) of 252.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gcushare.core.errors import ConfigError

_COMMENT = re.compile(r"^[ \t]*[#;].*\n?", re.MULTILINE)
_CONTINUED = re.compile(r"(?<!\\)(?P<kept>(?:\\\\)*)\\\r?\n")
_LINE = re.compile(r"^[ \t]*(?:\[(?P<section>.*)\]|(?P<key>[^=\n]*)=(?P<value>.*))[ \t\r]*$", re.MULTILINE)
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')+""")
_QUOTED = re.compile(r""""((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'""")
_UNREAD = re.compile(r"\\.|%[A-Za-z]")
"""Escapes and specifiers. systemd leaves a percent sign that no letter follows."""
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z0-9_]+)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALUE = re.compile(r""""([^"\\]*)"|'([^']*)'|((?!["'])[^\\]*)""")


@dataclass(frozen=True, slots=True)
class Argument:
    """One word; ``start`` and ``end`` are its place in the text, quotes included."""

    start: int
    end: int
    value: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment of [Service]; ``start`` is the place of its value in the text."""

    key: str
    value: str
    start: int

    @property
    def words(self) -> tuple[Argument, ...]:
        """The words of the value, without quotes."""
        return tuple(words_of(self.value, self.start))


def settings_of(text: str) -> Iterator[Setting]:
    """Read the assignments of [Service] in order. Comment lines inside a continued line are left out."""
    # What is not read becomes blanks, so that everything else keeps its place.
    plain = " " + text[1:] if text.startswith("\ufeff") else text
    plain = _COMMENT.sub(lambda comment: " " * len(comment[0]), plain)
    plain = _CONTINUED.sub(lambda end: end["kept"].ljust(len(end[0])), plain)
    here = ""
    for line in _LINE.finditer(plain):
        if line["section"] is not None:
            here = line["section"]
        elif here == "Service":
            yield Setting(line["key"].strip(), line["value"], line.start("value"))


def words_of(text: str, start: int = 0) -> Iterator[Argument]:
    """Split a text into words, without their quotes.

    Raises:
        ConfigError: a quote, or a backslash, has no end.
    """
    if rest := _WORD.sub("", text).strip():
        raise ConfigError(f"what begins with {rest[:1]} has no end, which systemd refuses: {text[-80:].strip()!r}")
    for word in _WORD.finditer(text):
        value = _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", word[0])
        yield Argument(start + word.start(), start + word.end(), value)


def assigned(settings: Iterable[Setting], key: str) -> list[str]:
    """List the words of all assignments of ``key``; an empty one removes those before it."""
    words: list[str] = []
    for setting in settings:
        if setting.key == key:
            found = [word.value for word in setting.words]
            words = [*words, *found] if found else []
    return words


def read_word(text: str) -> tuple[str, str]:
    """Write ``%%`` as one; returns the text, and why it is not known, empty if it is: what ``%n`` stands for is not."""
    unread = _UNREAD.search(text.replace("%%", ""))
    if unread is not None:
        return text, f"gcushare does not read systemd's {unread[0]}: write the value out"
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
        words = [each.value for each in words_of(value_of(word[1:]))]
    else:
        words = [_VARIABLE.sub(lambda match: value_of(match[1]) if match[1] else "$", word)]
    if unknown:
        return [word], f"the value of ${unknown[0]} is not in the unit's files as gcushare reads it: write it out"
    return words, ""


def parse_environment_file(text: str) -> dict[str, str | None]:
    """Read a file that ``EnvironmentFile=`` names: ``NAME=value`` in lines, the value in one pair of quotes or none.

    None stands for a value in another form. A comment goes on in the next line like a value.
    """
    variables: dict[str, str | None] = {}
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        name, equals, written = (part.strip() for part in line.partition("="))
        if equals and _NAME.fullmatch(name):
            value = _VALUE.fullmatch(written)
            variables[name] = value and (value[1] or value[2] or value[3] or "")
    return variables
