"""A kube-scheduler's systemd unit: edit the flags in its ``ExecStart`` without any other change, and restart it."""

from __future__ import annotations

import asyncio
import posixpath
import re
from dataclasses import dataclass
from typing import Protocol, Self

from gcushare.config_manager.host import launch
from gcushare.config_manager.host.unit_files import Surroundings
from gcushare.config_manager.host.unit_text import (
    Argument,
    read_word,
    settings_of,
    with_variables,
)
from gcushare.config_manager.scheduler_config.versions import Version
from gcushare.core.errors import ConfigError, GcushareError, Refused
from gcushare.wire.flags import Flag, effective

_PREFIXES = "@-:+!|"
"""Characters that systemd allows before a program's path. Source: systemd.service(5), COMMAND LINES."""


@dataclass(frozen=True, slots=True)
class UnitFile:
    """The file of a unit that holds its one ``ExecStart``, which runs kube-scheduler: the unit's own, or a drop-in."""

    text: str
    name: str
    around: Surroundings
    arguments: tuple[Argument, ...]
    may_read_others = True

    @property
    def program(self) -> str:
        return read_word(self.arguments[0].value.lstrip(_PREFIXES))[0]

    @property
    def words(self) -> tuple[launch.Word, ...]:
        written = self.arguments[0].value
        has_variables = ":" not in written[: len(written) - len(written.lstrip(_PREFIXES))]
        variables, unreadable = self.around.variables(self.text)
        words = []
        for number, argument in enumerate(self.arguments):
            text, problem = read_word(argument.value)
            found = [text]
            if number and has_variables and not problem:
                found, problem = with_variables(text, variables)
                if unreadable and found != [text]:
                    found, problem = [text], unreadable
            is_written = found == [argument.value] and not problem
            words += [launch.Word(each, number if is_written else None, problem) for each in found]
        return tuple(words)

    @property
    def flags(self) -> tuple[Flag, ...]:
        return launch.flags_of(self.words)

    @property
    def version(self) -> Version | None:
        return None

    @property
    def user(self) -> str:
        """The user of ``User=``; one that systemd makes up is known by no file of the host."""
        is_made_up = self._last("DynamicUser") in ("yes", "true", "on", "1")
        return self._last("User") or ("of DynamicUser=" if is_made_up else "0")

    def _last(self, key: str) -> str:
        """Find the last value of a setting in all of the unit's files; empty if it has none."""
        values = [setting.value.strip() for setting in self.around.settings(self.text) if setting.key == key]
        return read_word(values[-1])[0] if values else ""

    @property
    def directory(self) -> str:
        return self._last("WorkingDirectory").removeprefix("-") or "/"

    def host_path(self, path: str) -> str | None:
        return path

    def has_trace(self, own_paths: frozenset[str]) -> bool:
        return launch.own_flag(self.flags, own_paths) is not None

    def points_at(self, target: launch.ConfigTarget) -> bool:
        flag = effective(self.flags, target.flag)
        return flag is not None and flag.value == target.path

    def pointed_at(self, target: launch.ConfigTarget) -> Self:
        present = launch.written_flag(self.words, target.flag)
        if present is not None:
            return self._with_value(present, target.path)
        # Added at the end, on a line of its own if the last argument has one. There it outranks what variables hold.
        last = self.arguments[-1]
        indent = self.text[self.text.rfind("\n", 0, last.start) + 1 : last.start]
        newline = "\r\n" if "\r\n" in self.text else "\n"
        separator = f" \\{newline}{indent}" if indent.strip() == "" and indent else " "
        edited = self._replaced(last.end, last.end, f"{separator}--{target.flag}={target.path}")
        launch.check_certain(edited.words, {target.flag}, self.name)
        return edited

    def without_trace(self, own_paths: frozenset[str], flag_was: str | None) -> Self:
        words = self.words
        flag = launch.own_flag(self.flags, own_paths)
        written = None if flag is None else launch.written_flag(words, flag.name)
        if written is None:
            return self
        if flag_was is not None:
            return self._with_value(written, flag_was)
        # The space and the line continuation before the flag's arguments go too.
        first, last = self._numbers(written)
        return self._replaced(self.arguments[first - 1].end, self.arguments[last].end, "")

    def _numbers(self, flag: Flag) -> tuple[int, int]:
        """Return the numbers of the arguments that hold a flag and its value, which are as written."""
        words = self.words
        return words[flag.index].written or 0, words[flag.value_index].written or 0

    def _with_value(self, flag: Flag, value: str) -> Self:
        first, last = self._numbers(flag)
        argument = self.arguments[last]
        written = self.arguments[first].value.partition("=")[0]
        raw = self.text[argument.start : argument.end]
        new = flag.rewritten(value, written_name=written)
        quote = raw[0] if raw[0] in "\"'" and raw[-1] == raw[0] else '"' if re.search(r"\s", new) else ""
        return self._replaced(argument.start, argument.end, f"{quote}{new}{quote}")

    def _replaced(self, start: int, end: int, text: str) -> Self:
        edited = self.text[:start] + text + self.text[end:]
        return type(self)(edited, self.name, self.around, _scheduler_arguments(edited, self.name, self.around))


def parse_unit(text: str, name: str, around: Surroundings | None = None) -> UnitFile:
    """Parse a unit's file and find its scheduler's command line.

    Raises:
        ConfigError: not a service unit, or it does not run kube-scheduler.
        Refused: it has several command lines.
    """
    around = around or Surroundings()
    return UnitFile(text, name, around, _scheduler_arguments(text, name, around))


def _scheduler_arguments(text: str, name: str, around: Surroundings) -> tuple[Argument, ...]:
    """Read the one ``ExecStart`` of [Service]; an empty assignment removes those before it, as in systemd."""
    commands: list[tuple[str, tuple[Argument, ...]]] = []
    for file, content in (*around.before, (name, text), *around.after):
        for setting in settings_of(content):
            if setting.key == "ExecStart":
                words = setting.words
                commands = [*commands, (file, words)] if words else []
    if not commands:
        raise ConfigError(f"{name}: no [Service] section with an ExecStart= that runs kube-scheduler")
    if len(commands) > 1 or any(word.value == ";" for word in commands[0][1]):
        raise Refused(f"{name}: ExecStart= has several commands: leave the one that runs kube-scheduler")
    file, words = commands[0]
    if file != name:
        raise Refused(f"{name}: the ExecStart= of {file!r} is in force instead: name that file with --unit")
    program, *rest = (argument.value for argument in words)
    program = program.lstrip(_PREFIXES)
    if not launch.is_scheduler((program, *rest)):
        raise ConfigError(
            f"{name}: ExecStart runs {posixpath.basename(program)!r}, not 'kube-scheduler': start kube-scheduler "
            f"directly, with its flags as arguments; where that is not possible, {launch.BY_HAND}"
        )
    return words


class SystemdError(GcushareError):
    """systemd did not read its units again, or did not restart the scheduler."""


class Systemd(Protocol):
    """The host's service manager; the tests have one that restarts a double of the scheduler."""

    async def reload(self) -> None:
        """Read the units again. Raises ``SystemdError`` if that fails."""

    async def restart(self, unit: str) -> None:
        """Restart the unit in file ``unit``. Raises ``SystemdError`` if that fails."""


class Systemctl:
    """systemd, through its command ``systemctl``."""

    async def reload(self) -> None:
        await self._run("daemon-reload")

    async def restart(self, unit: str) -> None:
        await self._run("restart", posixpath.basename(unit))

    async def _run(self, *arguments: str) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                "systemctl", *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise SystemdError(f"systemctl cannot be started: {error}; restart the scheduler by hand") from error
        _, errors = await process.communicate()
        if process.returncode != 0:
            reason = errors.decode(errors="replace").strip()[:500]
            raise SystemdError(f"systemctl {' '.join(arguments)} ended with {process.returncode}: {reason}")
