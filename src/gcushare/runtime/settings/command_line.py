"""Split a command line into the texts of settings; what the texts mean is decided where all sources meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.declare import Spec

_COMMON = ("config-file", "print-config", "version", "help")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The raw values by setting name, and what else the command line asked for."""

    values: Mapping[str, str]
    config_file: str | None = None
    wants_help: bool = False
    wants_version: bool = False
    wants_config: bool = False


def parse_command_line(program: str, specs: Sequence[Spec], argv: Sequence[str]) -> CommandLine:
    """Parse the arguments after the program's name.

    Raises:
        ConfigError: an unknown flag (with the nearest known one), a flag without its value, an argument too many.
    """
    names = {_identify(spec.name): spec.name for spec in specs}
    switches = [spec.name for spec in specs if spec.parser.is_switch and not spec.is_argument]
    command = click.Command(program, params=[*map(_make_parameter, specs), *_common_options()], add_help_option=False)
    try:
        found = command.make_context(program, list(_expand_switches(argv, switches))).params
    except click.UsageError as error:
        raise ConfigError(f"{error.format_message()} Run '{program} --help' to see every setting.") from error
    values = {names[key]: _as_text(value) for key, value in found.items() if key in names and value is not None}
    config_file = found[_identify("config-file")]
    return CommandLine(
        values,
        config_file if isinstance(config_file, str) else None,
        wants_help=bool(found[_identify("help")]),
        wants_version=bool(found[_identify("version")]),
        wants_config=bool(found[_identify("print-config")]),
    )


def _identify(name: str) -> str:
    return name.replace("-", "_")


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _make_parameter(spec: Spec) -> click.Parameter:
    if spec.is_argument:
        return click.Argument([_identify(spec.name)], required=False, default=None)
    flag = f"--{spec.name}/--no-{spec.name}" if spec.parser.is_switch else f"--{spec.name}"
    words = [_identify(spec.name), flag, *filter(None, [spec.declared.short, spec.declared.alias])]
    return click.Option(words, default=None)


def _common_options() -> Iterator[click.Option]:
    for name in _COMMON:
        words = [_identify(name), f"--{name}"] + (["-h"] if name == "help" else [])
        yield click.Option(words, is_flag=name != "config-file", default=None)


def _expand_switches(argv: Sequence[str], switches: Sequence[str]) -> Iterator[str]:
    """Rewrite ``--switch=true`` and ``--switch=false``, which Kubernetes' own programs taught people to write."""
    forms = {f"--{name}={word}": f"--{name}" for name in switches for word in ("true", "1")}
    forms |= {f"--{name}={word}": f"--no-{name}" for name in switches for word in ("false", "0")}
    only_arguments = False
    for word in argv:
        only_arguments = only_arguments or word == "--"
        yield word if only_arguments else forms.get(word, word)
