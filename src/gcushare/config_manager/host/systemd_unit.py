"""A kube-scheduler's systemd unit: edit the flags in its ``ExecStart`` without any other change, and restart it."""

from __future__ import annotations

import asyncio
import posixpath
import re
from dataclasses import dataclass
from typing import Protocol, Self

from gcushare.config_manager.host import launch
from gcushare.config_manager.scheduler_config.versions import Version
from gcushare.core.errors import ConfigError, GcushareError, Refused
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
        return launch.scheduler_flags([argument.value for argument in self.arguments])

    @property
    def version(self) -> Version | None:
        return None

    @property
    def runs_as(self) -> launch.RunsAs:
        """The user and groups of ``User=`` and the like; one that systemd makes up is known by no host file."""
        user = self._assigned("User")[-1:]
        is_made_up = self._assigned("DynamicUser")[-1:] in (["yes"], ["true"], ["on"], ["1"])
        named = user or [posixpath.basename(self.name).partition(".")[0] if is_made_up else ""]
        groups = " ".join((*self._assigned("Group")[-1:], *self._assigned("SupplementaryGroups")))
        return launch.RunsAs(named[0] or "0", tuple(groups.split()))

    def _assigned(self, key: str) -> list[str]:
        """List what [Service] assigns to ``key``, in order."""
        section, found = "", []
        for line in map(str.strip, self.text.splitlines()):
            name, equals, value = line.partition("=")
            if line.startswith("["):
                section = line
            elif section == "[Service]" and equals and name.rstrip() == key:
                found.append(value.strip())
        return found

    @property
    def health(self) -> launch.HealthEndpoint:
        return launch.default_health(self.flags)

    def host_path(self, path: str) -> str | None:
        return path

    def is_mount_point(self, path: str) -> bool:
        return False

    def has_trace(self, own_paths: frozenset[str]) -> bool:
        return launch.own_flag(self.flags, own_paths) is not None

    def points_at(self, target: launch.ConfigTarget) -> bool:
        flag = effective(self.flags, target.flag)
        return flag is not None and flag.value == target.path

    def pointed_at(self, target: launch.ConfigTarget) -> Self:
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
        # Added at the end, on a line of its own if the last argument has one.
        last = self.arguments[-1]
        indent = self.text[self.text.rfind("\n", 0, last.start) + 1 : last.start]
        newline = "\r\n" if "\r\n" in self.text else "\n"
        separator = f" \\{newline}{indent}" if indent.strip() == "" and indent else " "
        edited = self._replaced(last.end, last.end, f"{separator}--{target.flag}={target.path}")
        launch.check_added(edited.flags, target.flag, self.name)
        return edited

    def without_trace(self, own_paths: frozenset[str], flag_was: str | None) -> Self:
        flag = launch.own_flag(self.flags, own_paths)
        if flag is None:
            return self
        if flag_was is not None:
            return self._with_value(flag, flag_was)
        # The space and the line continuation before the flag's arguments go too.
        return self._replaced(self.arguments[flag.index - 1].end, self.arguments[flag.value_index].end, "")

    def _with_value(self, flag: Flag, value: str) -> Self:
        argument = self.arguments[flag.value_index]
        written = self.arguments[flag.index].value.partition("=")[0]
        raw = self.text[argument.start : argument.end]
        new = flag.rewritten(value, written_name=written)
        quote = raw[0] if raw[0] in "\"'" and raw[-1] == raw[0] else '"' if re.search(r"\s", new) else ""
        return self._replaced(argument.start, argument.end, f"{quote}{new}{quote}")

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
    """Read the one ``ExecStart`` of [Service]; an empty assignment removes those before it, as in systemd.

    Comment lines inside a continued line belong to it and are left out.
    """
    commands: list[list[Argument]] = []
    section, end, continues, is_command = "", 0, False, False
    for line in text.splitlines(keepends=True):
        start, end = end, end + len(line)
        content = line.rstrip("\r\n")
        if content.lstrip()[:1] in ("#", ";"):
            continue
        if not continues:
            if content.strip().startswith("[") and content.strip().endswith("]"):
                section = content.strip()[1:-1]
            match = re.match(r"\s*ExecStart\s*=", content)
            is_command = match is not None and section == "Service"
            if match is not None and is_command:
                commands.append([])
                start += match.end()
        continues = content.endswith("\\")
        if is_command:
            stop = end - len(line) + len(content) - continues
            commands[-1] += (
                Argument(m.start(), m.end(), re.sub(r"""\\(.)|["']""", r"\1", m.group()))
                for m in _ARGUMENT.finditer(text, start, stop)
            )
    while [] in commands:
        del commands[: commands.index([]) + 1]
    if not commands:
        raise ConfigError(f"{name}: no [Service] section with an ExecStart= that runs kube-scheduler")
    if len(commands) > 1:
        raise Refused(f"{name}: {len(commands)} ExecStart= lines; leave the one that runs kube-scheduler")
    program, *rest = (argument.value for argument in commands[0])
    if not launch.is_scheduler((program.lstrip(_PREFIXES), *rest)):
        raise ConfigError(
            f"{name}: ExecStart runs {posixpath.basename(program.lstrip(_PREFIXES))!r}, not 'kube-scheduler'"
        )
    return tuple(commands[0])


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
