"""Loads a program's settings from flags, environment and file, and reports all problems together.

The file is YAML or JSON, with a version, and the names of the flags as keys.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.runtime.settings.command_line import CommandLine
from gcushare.runtime.settings.declare import FILE_VERSION, VERSION_KEY, Program, Spec, group_of, list_specs
from gcushare.runtime.settings.help_text import MASK, Resolved, render_config, render_help

T = TypeVar("T")
ReadFile = Callable[[Path], str]

CONFIG_ENV = "GCUSHARE_CONFIG"
# Characters of a wrong value that an error shows: enough to recognise it, and few enough for a terminal.
_SHOWN_VALUE = 120


class Answered(Exception):
    """Not an error: the command line requested help, version or settings. Print ``text`` and exit with 0."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def load_settings(program: Program[T], argv: Sequence[str], environ: Mapping[str, str], read_file: ReadFile) -> T:
    """Build the program's settings from the arguments after its name, its environment and its settings file.

    ``read_file`` reads the file that ``--config-file`` or GCUSHARE_CONFIG names.

    Raises:
        ConfigError: one problem per wrong value, key or file, or only the malformed command line.
        Answered: the arguments requested help, version or settings.
    """
    specs = list_specs(program.settings)
    line = CommandLine(program.name, specs, argv)
    if "help" in line.actions:
        raise Answered(render_help(program, specs, environ.get("COLUMNS", "")))
    if "version" in line.actions:
        raise Answered(f"{program.name} {program.version}\n")
    problems: list[str] = []
    path, in_file = _read_settings_file(line, environ, read_file, specs, problems)
    resolved: list[Resolved] = []
    for spec in specs:
        if spec.name in line.values:
            text, source = line.values[spec.name], "argument" if spec.is_argument else f"flag {spec.flag}"
        elif spec.env and spec.env in environ:
            text, source = environ[spec.env], f"env {spec.env}"
        elif spec.name in in_file:
            text, source = in_file[spec.name], f"file {path} key {spec.name}"
        elif spec.is_required:
            places = (
                "on the command line" if spec.is_typed else f"as {spec.flag}, env {spec.env} or file key {spec.name}"
            )
            problems.append(f"{spec.flag} is required: give it {places}; accepted: {spec.parser.accepted}")
            continue
        else:
            resolved.append(Resolved(spec, spec.default, "default"))
            continue
        try:
            resolved.append(Resolved(spec, spec.parser.parse(text), source))
        except ValueError as error:
            shown = repr(MASK) if spec.is_secret else repr(text[:_SHOWN_VALUE])
            cut = f" (cut, {len(text)} characters)" if len(text) > _SHOWN_VALUE else ""
            near = difflib.get_close_matches(text, spec.parser.choices, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            problems.append(f"{source}: {shown}{cut} is {error}; accepted: {spec.parser.accepted}{hint}")
    built = _build(program.settings, (), {item.spec.field_path: item.value for item in resolved}, problems)
    if problems:
        raise ConfigError(*problems)
    if "config" in line.actions:
        raise Answered(render_config(program.name, resolved))
    assert isinstance(built, program.settings), "every setting was read, or there would have been a problem"
    return built


def _read_settings_file(
    line: CommandLine, environ: Mapping[str, str], read_file: ReadFile, specs: Sequence[Spec], problems: list[str]
) -> tuple[str, Mapping[str, str]]:
    """Return the settings file's path and its texts by setting name; both are empty if no file is given."""
    path = line.config_file if line.config_file is not None else environ.get(CONFIG_ENV, "")
    if not path:
        return "", {}
    try:
        content = read_file(Path(path))
    except (OSError, UnicodeDecodeError) as error:
        source = "flag --config-file" if line.config_file is not None else f"env {CONFIG_ENV}"
        problems.append(f"{source}: {path!r} cannot be read: {error}; name a readable file or leave it out")
        return path, {}
    return path, parse_settings_file(path, content, [spec.name for spec in specs if not spec.is_typed], problems)


def _build(cls: type, at: tuple[str, ...], values: Mapping[tuple[str, ...], Any], problems: list[str]) -> object:
    """Build a settings class from its values, nested classes first; None if a value is missing.

    A settings class may have ``find_conflicts``, to check values that depend on each other. It yields one sentence per
    conflict: the settings, their values, and what to do.
    """
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        here = (*at, field.name)
        inner = group_of(field)
        arguments[field.name] = values.get(here) if inner is None else _build(inner.cls, here, values, problems)
        if arguments[field.name] is None and here not in values:
            return None
    built = cls(**arguments)
    problems.extend(getattr(built, "find_conflicts", tuple)())
    return built


def parse_settings_file(path: str, content: str, known: Sequence[str], problems: list[str]) -> dict[str, str]:
    """Parse a settings file's content into texts by setting name. ``known`` are the accepted keys.

    Effects: adds to ``problems`` each unknown version, unknown key and value that is not a scalar. Returns the other
    keys in any case, so that their values are checked too.
    """
    from gcushare.wire.untrusted_yaml import (
        load_yaml,  # here: few programs are given a file, and all are asked for help
    )

    try:
        document = load_yaml(content, f"file {path}")
    except RemoteContractError as error:
        problems.append(str(error))
        return {}
    if not isinstance(document, dict):
        problems.append(
            f"file {path}: holds {_name_kind(document)}; accepted: a mapping that begins with '{VERSION_KEY}: 1'"
        )
        return {}
    version = document.pop(VERSION_KEY, None)
    if version is None:
        problems.append(
            f"file {path}: has no '{VERSION_KEY}'; add '{VERSION_KEY}: {FILE_VERSION}', the only known version"
        )
    elif version != FILE_VERSION or isinstance(version, bool):
        problems.append(f"file {path} key {VERSION_KEY}: {version!r} is not known; known versions: {FILE_VERSION}")
    values: dict[str, str] = {}
    for key, value in document.items():
        text = _as_text(value)
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            problems.append(f"file {path}: unknown key {str(key)!r}{hint} Known keys: {', '.join(sorted(known))}")
        elif text is None:
            problems.append(
                f"file {path} key {key}: holds {_name_kind(value)}; accepted: one value, or a list of values"
            )
        else:
            values[key] = text
    return values


def _as_text(value: object) -> str | None:
    """Convert a scalar or a list of scalars to the text of a flag; None for anything else."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return ""
        case str() | int() | float():
            return str(value)
        case list():
            parts = [None if isinstance(item, list) else _as_text(item) for item in value]
            return None if None in parts else ",".join(part for part in parts if part is not None)
        case _:
            return None


def _name_kind(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return f"{type(value).__name__} {str(value)[:60]!r}"
