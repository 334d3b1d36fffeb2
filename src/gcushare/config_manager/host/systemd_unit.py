"""A kube-scheduler's systemd unit: read and edit the flags in its ``ExecStart`` without any other change."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Self

from gcushare.config_manager.host.launch import (
    ConfigTarget,
    HealthEndpoint,
    check_added,
    default_health,
    own_flag,
    scheduler_flags,
)
from gcushare.config_manager.scheduler_config.versions import Version
from gcushare.core.errors import ConfigError, Refused
from gcushare.wire.flags import Flag, effective

_ARGUMENT = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\])+""")
_PREFIXES = "@-:+!|"
"""Characters that systemd allows before a program's path. Source: systemd.service(5), COMMAND LINES."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the command line with its position in the text, quotes included."""

    start: int
    end: int
    value: str


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A unit with one ``ExecStart``, which runs kube-scheduler."""

    text: str
    name: str
    arguments: tuple[Argument, ...]

    @property
    def program(self) -> str:
        return self.arguments[0].value.lstrip(_PREFIXES)

    @property
    def flags(self) -> tuple[Flag, ...]:
        return scheduler_flags([argument.value for argument in self.arguments])

    @property
    def version(self) -> Version | None:
        return None

    @property
    def health(self) -> HealthEndpoint:
        return default_health(self.flags)

    def host_path(self, path: str) -> str | None:
        return path

    def has_trace(self, own_paths: frozenset[str]) -> bool:
        return own_flag(self.flags, own_paths) is not None

    def points_at(self, target: ConfigTarget) -> bool:
        flag = effective(self.flags, target.flag)
        return flag is not None and flag.value == target.path

    def pointed_at(self, target: ConfigTarget) -> Self:
        present = effective(self.flags, target.flag)
        if present is not None:
            return self._with_value(present, target.path)
        expanded = [argument.value for argument in self.arguments if argument.value.startswith("$")]
        if expanded:
            raise Refused(
                f"{self.name}: kube-scheduler gets flags from {', '.join(expanded)}, which may contain "
                f"--{target.flag} already: add --{target.flag}={target.path} there, and write that file with what "
                "`render` prints"
            )
        edited = self._appended(f"--{target.flag}={target.path}")
        check_added(edited.flags, target.flag, self.name)
        return edited

    def without_trace(self, own_paths: frozenset[str], flag_was: str | None) -> Self:
        flag = own_flag(self.flags, own_paths)
        if flag is None:
            return self
        return self._without(flag) if flag_was is None else self._with_value(flag, flag_was)

    def _with_value(self, flag: Flag, value: str) -> Self:
        argument = self.arguments[flag.value_index]
        written = self.arguments[flag.index].value.partition("=")[0]
        raw = self.text[argument.start : argument.end]
        new = flag.rewritten(value, written_name=written)
        quote = raw[0] if raw[0] in "\"'" and raw[-1] == raw[0] else '"' if re.search(r"\s", new) else ""
        return self._replaced(argument.start, argument.end, f"{quote}{new}{quote}")

    def _appended(self, argument: str) -> Self:
        """Add an argument at the end, on a line of its own if the last argument has one."""
        last = self.arguments[-1]
        line_start = self.text.rfind("\n", 0, last.start) + 1
        indent = self.text[line_start : last.start]
        newline = "\r\n" if "\r\n" in self.text else "\n"
        separator = f" \\{newline}{indent}" if indent.strip() == "" and indent else " "
        return self._replaced(last.end, last.end, separator + argument)

    def _without(self, flag: Flag) -> Self:
        """Remove the flag's arguments with the space and the line continuation before them."""
        start = self.arguments[flag.index - 1].end
        return self._replaced(start, self.arguments[flag.value_index].end, "")

    def _replaced(self, start: int, end: int, text: str) -> Self:
        edited = self.text[:start] + text + self.text[end:]
        return type(self)(edited, self.name, _scheduler_arguments(edited, self.name))


def parse_unit(text: str, name: str) -> UnitFile:
    """Parse a unit and find its scheduler's command line.

    Raises:
        ConfigError: not a service unit, or it does not run kube-scheduler.
        Refused: it has several command lines.
    """
    return UnitFile(text, name, _scheduler_arguments(text, name))


def _scheduler_arguments(text: str, name: str) -> tuple[Argument, ...]:
    commands = [arguments for arguments in _exec_starts(text) if arguments]
    if not commands:
        raise ConfigError(f"{name}: no [Service] section with an ExecStart= that runs kube-scheduler")
    if len(commands) > 1:
        raise Refused(f"{name}: {len(commands)} ExecStart= lines; leave the one that runs kube-scheduler")
    arguments = commands[0]
    program = posixpath.basename(arguments[0].value.lstrip(_PREFIXES))
    if program != "kube-scheduler":
        raise ConfigError(f"{name}: ExecStart runs {program!r}, not 'kube-scheduler'")
    return arguments


def _exec_starts(text: str) -> list[tuple[Argument, ...]]:
    """Read every ExecStart in [Service]; an empty assignment removes those before it, as in systemd."""
    found: list[tuple[Argument, ...]] = []
    section = ""
    for start, end in _logical_lines(text):
        line = text[start:end].strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        match = re.match(r"\s*ExecStart\s*=", text[start:end])
        if match is None or section != "Service":
            continue
        arguments = _split(text, start + match.end(), end)
        found = [*found, arguments] if arguments else []
    return found


def _logical_lines(text: str) -> list[tuple[int, int]]:
    """Split at line ends that no backslash continues; comment lines inside a continuation belong to it."""
    spans: list[tuple[int, int]] = []
    start = position = 0
    for line in text.splitlines(keepends=True):
        position += len(line)
        content = line.rstrip("\r\n")
        is_comment = content.lstrip()[:1] in ("#", ";")
        continues = content.endswith("\\") and not (is_comment and start == position - len(line))
        if continues or (is_comment and start != position - len(line)):
            continue
        spans.append((start, position))
        start = position
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def _split(text: str, start: int, end: int) -> tuple[Argument, ...]:
    """Split a command line into arguments; comment lines and line continuations are left out."""
    arguments: list[Argument] = []
    position = start
    for line in text[start:end].splitlines(keepends=True):
        content = line.rstrip("\r\n")
        continued = content.endswith("\\")
        is_comment = position != start and content.lstrip()[:1] in ("#", ";")
        stop = position + len(content) - (1 if continued else 0)
        if not is_comment:
            arguments.extend(
                Argument(m.start(), m.end(), _unquoted(m.group())) for m in _ARGUMENT.finditer(text, position, stop)
            )
        position += len(line)
    return tuple(arguments)


def _unquoted(argument: str) -> str:
    return re.sub(r"""\\(.)|["']""", lambda match: match.group(1) or "", argument)
