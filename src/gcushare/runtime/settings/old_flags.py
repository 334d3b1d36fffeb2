"""Translates the flags of the Go programs that ours replace, with one note about each.

Go's ``flag`` package accepts one dash or two, ``-flag=value`` or ``-flag value``, and ``-flag`` alone for a switch.
glog and klog add their own flags to every program. A flag with the name of one of ours is ours, with one dash or two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.command_line import nearest

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


Understood: TypeAlias = tuple[tuple[str, ...], str]
"""The translation of an old flag: our own arguments, and the note for the user."""


@dataclass(frozen=True, slots=True)
class OldFlag:
    """A flag of an older program. ``read`` translates its value. ``is_switch``: it needs no value."""

    read: Callable[[str], Understood]
    is_switch: bool = False


def left_out(why: str, *, is_switch: bool = False, form: str = "", accepted: str = "") -> OldFlag:
    """A flag that is ignored because it needs no equivalent. Its value is not shown, because it may be a secret.

    A value that does not match ``form`` is refused: it may be the next argument.
    """

    def read(value: str) -> Understood:
        if is_switch and value not in _TRUE | _FALSE:
            raise ValueError("its value is true or false")
        if form and not re.fullmatch(form, value):
            raise ValueError(f"its value is {accepted}")
        return (), f"is left out: {why}"

    return OldFlag(read, is_switch)


def refused_switch(why: str) -> OldFlag:
    """A switch that is ignored if it is off, and refused if it is on."""

    def read(value: str) -> Understood:
        if value in _TRUE:
            raise ValueError(why)
        return (), "is left out: it is off"

    return OldFlag(read, is_switch=True)


def refused(why: str) -> OldFlag:
    """A flag for an unsupported feature."""

    def read(_value: str) -> Understood:
        raise ValueError(why)

    return OldFlag(read)


def _verbosity(value: str) -> Understood:
    if not value.isdecimal():
        raise ValueError("its value is a whole number, such as 5")
    level = "debug" if int(value) >= 4 else "info"
    return (f"--log-level={level}",), f"is taken as --log-level={level}"


_ON_STDERR = "the log goes to stderr always, and to --log-dir"
_SWITCHES = ("logtostderr", "alsologtostderr", "one_output", "add_dir_header", "skip_headers", "skip_log_headers")
GLOG_FLAGS: Mapping[str, OldFlag] = {
    **dict.fromkeys(_SWITCHES, left_out(_ON_STDERR, is_switch=True)),
    **dict.fromkeys(("log_file", "log_file_max_size", "log_flush_frequency"), left_out(_ON_STDERR)),
    "stderrthreshold": left_out(
        "--log-level holds for stderr and the file alike",
        form="(?i)info|warning|error|fatal|[0-9]+",
        accepted="INFO, WARNING, ERROR or FATAL",
    ),
    "v": OldFlag(_verbosity),
    "vmodule": left_out("--log-level holds for all modules", form="([^=,]+=[0-9]+,?)*", accepted="such as cache=2"),
    "log_dir": OldFlag(lambda value: ((f"--log-dir={value}",), "is taken as --log-dir")),
    "log_backtrace_at": left_out(
        "unexpected errors are logged with their stack always", form="([^:]+:[0-9]+)?", accepted="such as main.go:42"
    ),
}


def translate(
    argv: Sequence[str], known: Collection[str], old: Mapping[str, OldFlag], *, has_log: bool = True
) -> tuple[list[str], list[str]]:
    """Translate the arguments of an older program to ours; returns those, and a note for each translated flag.

    ``known`` are the names of our own flags, without dashes. On the command line they may also have one dash. Of flags
    that set up a log, only the values are checked for a command that has none.

    Raises:
        ConfigError: a flag is unsupported, or its value is invalid.
    """
    words: list[str] = []
    notes: list[str] = []
    problems: list[str] = []
    for flag, value, given in _split(argv, known, old):
        if flag is None:
            words.extend(given)
            continue
        try:
            translated, note = old[flag].read(value)
        except ValueError as error:
            problems.append(f"flag {given[0].partition('=')[0]} is not accepted: {error}")
            continue
        if has_log:
            words.extend(translated)
            notes.append(f"{given[0].partition('=')[0]} {note}")
    if problems:
        raise ConfigError(*problems)
    return words, notes


def _split(
    argv: Sequence[str], known: Collection[str], old: Mapping[str, OldFlag]
) -> Iterator[tuple[str | None, str, tuple[str, ...]]]:
    """Yield an old flag with its value, or None for arguments that stay, both with the original arguments."""
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield None, "", (word, *rest)
            return
        name, has_value, value = word.lstrip("-").partition("=")
        if name not in known and (underscored := name.replace("-", "_")) in old:
            name = underscored  # programs with pflag take both
        dashes = len(word) - len(word.lstrip("-"))
        if dashes not in (1, 2) or not name:
            yield None, "", (word,)
        elif name in known or name.removeprefix("no-") in known:
            yield None, "", (word if len(name) == 1 else f"--{word.lstrip('-')}",)
        elif name not in old:
            if dashes == 1 and (near := nearest(word.partition("=")[0], old)):
                raise ConfigError(f"No such option {word!r}. Did you mean '-{near}'?")
            yield None, "", (word,)
        elif has_value or old[name].is_switch:
            yield name, value if has_value else "true", (word,)
        else:
            value = rest.pop(0) if rest else ""
            yield name, value, (word, value)
