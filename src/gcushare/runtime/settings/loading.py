"""Read a program's settings once: flag over environment over file over default, every problem reported together."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.command_line import CommandLine, parse_command_line
from gcushare.runtime.settings.declare import CrossChecked, Program, Spec, group_of, list_specs
from gcushare.runtime.settings.file import FileValues, SettingsFileError, parse_settings_file
from gcushare.runtime.settings.help_text import MASK, Resolved, render_config, render_help

T = TypeVar("T")
ReadFile = Callable[[Path], str]

CONFIG_ENV = "GCUSHARE_CONFIG"
# Characters of an offending value that an error shows: enough to recognise it, too few to flood a terminal.
_SHOWN_VALUE = 120


class Answered(Exception):
    """Not an error: the command line asked for the help, version or settings; print ``text`` and exit with 0."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True, slots=True)
class _Given:
    """A raw value and where it came from, in the words of an error message."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class _Sources:
    line: CommandLine
    environ: Mapping[str, str]
    file: FileValues

    def find(self, spec: Spec) -> _Given | None:
        """Return the value of the strongest source that names this setting."""
        if spec.name in self.line.values:
            return _Given(self.line.values[spec.name], "argument" if spec.is_argument else f"flag {spec.flag}")
        if spec.is_typed:
            return None
        if spec.env in self.environ:
            return _Given(self.environ[spec.env], f"env {spec.env}")
        if spec.name in self.file.values:
            return _Given(self.file.values[spec.name], f"file {self.file.path} key {spec.name}")
        return None


def load_settings(program: Program[T], argv: Sequence[str], environ: Mapping[str, str], read_file: ReadFile) -> T:
    """Build the program's settings from its arguments, environment and settings file.

    Args:
        program: what to read and how to explain it.
        argv: the arguments after the program's name.
        environ: the environment variables.
        read_file: reads the settings file named by ``--config-file`` or GCUSHARE_CONFIG.

    Raises:
        ConfigError: one problem per wrong value, key or file; a malformed command line stands alone.
        Answered: the arguments asked for the help, the version or the settings.
    """
    specs = list_specs(program.settings)
    line = parse_command_line(program.name, specs, argv)
    if line.wants_help:
        raise Answered(render_help(program, specs, environ.get("COLUMNS", "")))
    if line.wants_version:
        raise Answered(f"{program.name} {program.version}\n")
    problems: list[str] = []
    file = _read_settings_file(line, environ, read_file, specs, problems)
    resolved = _resolve(specs, _Sources(line, environ, file), problems)
    built = _build(program.settings, (), {item.spec.field_path: item.value for item in resolved}, problems)
    if problems:
        raise ConfigError(*problems)
    if line.wants_config:
        raise Answered(render_config(program.name, resolved))
    assert isinstance(built, program.settings), "every setting was read, or there would have been a problem"
    return built


def _read_settings_file(
    line: CommandLine, environ: Mapping[str, str], read_file: ReadFile, specs: Sequence[Spec], problems: list[str]
) -> FileValues:
    name = line.config_file if line.config_file is not None else environ.get(CONFIG_ENV, "")
    source = "flag --config-file" if line.config_file is not None else f"env {CONFIG_ENV}"
    if not name:
        return FileValues("", {})
    known = [spec.name for spec in specs if not spec.is_typed]
    try:
        return parse_settings_file(name, read_file(Path(name)), known)
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{source}: {name!r} cannot be read: {error}; name a readable file or leave it out")
    except SettingsFileError as error:
        problems.extend(error.problems)
        return error.understood
    return FileValues(name, {})


def _resolve(specs: Sequence[Spec], sources: _Sources, problems: list[str]) -> list[Resolved]:
    resolved = []
    for spec in specs:
        given = sources.find(spec)
        if given is not None:
            try:
                resolved.append(Resolved(spec, spec.parser.parse(given.text), given.source))
            except ValueError as error:
                problems.append(_describe_wrong_value(spec, given, str(error)))
        elif spec.is_required:
            problems.append(_describe_missing(spec))
        else:
            resolved.append(Resolved(spec, spec.default, "default"))
    return resolved


def _describe_wrong_value(spec: Spec, given: _Given, reason: str) -> str:
    shown = repr(MASK) if spec.declared.is_secret else repr(given.text[:_SHOWN_VALUE])
    cut = f" (cut, {len(given.text)} characters)" if len(given.text) > _SHOWN_VALUE else ""
    near = difflib.get_close_matches(given.text, spec.parser.choices, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{given.source}: {shown}{cut} is {reason}; accepted: {spec.parser.accepted}{hint}"


def _describe_missing(spec: Spec) -> str:
    places = "on the command line" if spec.is_typed else f"as {spec.flag}, env {spec.env} or file key {spec.name}"
    return f"{spec.flag} is required: give it {places}; accepted: {spec.parser.accepted}"


def _build(cls: type, at: tuple[str, ...], values: Mapping[tuple[str, ...], Any], problems: list[str]) -> object:
    """Build a settings class from its values, inner classes first; None where a value is missing."""
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        here = (*at, field.name)
        inner = group_of(field)
        if inner is not None:
            arguments[field.name] = _build(inner.cls, here, values, problems)
            if arguments[field.name] is None:
                return None
        elif here in values:
            arguments[field.name] = values[here]
        else:
            return None
    built = cls(**arguments)
    if isinstance(built, CrossChecked):
        problems.extend(built.find_conflicts())
    return built
