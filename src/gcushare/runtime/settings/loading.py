"""Loads a program's settings from flags and environment, and reports all problems together."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from gcushare._version import __version__
from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.command_line import CommandLine
from gcushare.runtime.settings.declare import Program, group_of, list_specs
from gcushare.runtime.settings.help_text import ResolvedSetting, render_config, render_help
from gcushare.runtime.settings.old_flags import OldFlag

T = TypeVar("T")

# Characters of a wrong value that an error shows: enough to recognise it, and few enough for a terminal.
_SHOWN_VALUE = 120


class Answered(Exception):
    """Not an error: the command line requested help, version or settings. Print ``text`` and exit with 0."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def load_settings(
    program: Program[T],
    argv: Sequence[str],
    environ: Mapping[str, str],
    old_flags: Mapping[str, OldFlag] | None = None,
    note: Callable[[str], object] = lambda _note: None,
) -> T:
    """Build the program's settings from the arguments after its name and its environment.

    ``note`` takes a sentence about each flag of ``old_flags`` that is given.

    Raises:
        ConfigError: one problem per wrong value, or only the malformed command line.
        Answered: the arguments requested help, version or settings.
    """
    specs = list_specs(program.settings)
    line = CommandLine(program.name, specs, argv, old_flags or {}, note)
    if "help" in line.actions:
        raise Answered(render_help(program, specs, environ.get("COLUMNS", "")))
    if "version" in line.actions:
        raise Answered(f"{program.name} {__version__}\n")
    problems: list[str] = []
    resolved: list[ResolvedSetting] = []
    for spec in specs:
        if spec.name in line.values:
            text, source = line.values[spec.name], "argument" if spec.is_argument else f"flag {spec.flag}"
        elif spec.env and spec.env in environ:
            text, source = environ[spec.env], f"env {spec.env}"
        elif spec.is_required:
            places = "on the command line" if spec.is_typed else f"as {spec.flag} or env {spec.env}"
            problems.append(f"{spec.flag} is required: give it {places}; accepted: {spec.parser.accepted}")
            continue
        else:
            resolved.append(ResolvedSetting(spec, spec.default, "default"))
            continue
        try:
            resolved.append(ResolvedSetting(spec, spec.parser.parse(text), source))
        except ValueError as error:
            cut = f" (cut, {len(text)} characters)" if len(text) > _SHOWN_VALUE else ""
            near = difflib.get_close_matches(text, spec.parser.choices, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            shown = f"{text[:_SHOWN_VALUE]!r}{cut}"
            problems.append(f"{source}: {shown} is {error}; accepted: {spec.parser.accepted}{hint}")
    built = _build(program.settings, (), {item.spec.field_path: item.value for item in resolved}, problems)
    if problems:
        raise ConfigError(*problems)
    if "config" in line.actions:
        raise Answered(render_config(program.name, resolved))
    assert isinstance(built, program.settings), "every setting was read, or there would have been a problem"
    return built


def _build(cls: type, at: tuple[str, ...], values: Mapping[tuple[str, ...], Any], problems: list[str]) -> object:
    """Build a settings class from its values, nested classes first; None if a value is missing.

    A settings class may have ``find_conflicts``, to check values that depend on each other. It yields one sentence per
    conflict: the settings, their values, and what to do.
    """
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if not field.metadata:
            continue  # a constant
        here = (*at, field.name)
        inner = group_of(field)
        arguments[field.name] = values.get(here) if inner is None else _build(inner.cls, here, values, problems)
        if arguments[field.name] is None and here not in values:
            return None
    built = cls(**arguments)
    problems.extend(getattr(built, "find_conflicts", tuple)())
    return built
