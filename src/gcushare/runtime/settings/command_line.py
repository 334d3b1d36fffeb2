"""Split a command line into the texts of settings; what the texts mean is decided where all sources meet."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.declare import Spec

_ACTIONS = {"-h": "help", "--help": "help", "--version": "version", "--print-config": "config"}
_CONFIG_FILE = "--config-file"
COMMON_FLAGS = frozenset(word.lstrip("-") for word in (*_ACTIONS, _CONFIG_FILE))
"""Of every program, without their dashes."""


@dataclass(slots=True)
class CommandLine:
    """The raw values by setting name, and what else the command line asked for."""

    values: dict[str, str] = field(default_factory=dict)
    config_file: str | None = None
    actions: set[str] = field(default_factory=set)
    """Any of help, version and config (to be printed)."""


def parse_command_line(program: str, specs: Sequence[Spec], argv: Sequence[str]) -> CommandLine:
    """Parse the arguments after the program's name, in the forms of GNU and of Go's programs.

    ``--name VALUE``, ``--name=VALUE``, ``-n VALUE``, ``-nVALUE``; switches alone, as ``--no-name`` or with ``=false``,
    several short ones in one word; ``--`` ends the flags. Of a flag that is given twice the last one counts.

    Raises:
        ConfigError: an unknown flag (with the nearest known one), a flag without its value, an argument too many.
    """
    line = CommandLine()
    flags = {word: spec for spec in specs if not spec.is_argument for word in spec.words}
    known = [*flags, *_ACTIONS, _CONFIG_FILE]
    words, positional = list(reversed(argv)), list[str]()

    def refuse(reason: str) -> ConfigError:
        return ConfigError(f"{reason} Run '{program} --help' to see every setting.")

    def take(flag: str, joined: str | None) -> bool:
        """Take one flag and its value; returns whether what was joined to it in one word was the value."""
        spec = flags.get(flag)
        is_bare = flag in _ACTIONS or (spec is not None and spec.parser.is_switch and flag.startswith("--no-"))
        if is_bare and joined is not None and flag.startswith("--"):
            raise refuse(f"Option {flag!r} takes no value, not {joined!r}.")
        if spec is not None and spec.parser.is_switch:
            is_value = joined is not None and flag.startswith("--")
            line.values[spec.name] = "false" if flag.startswith("--no-") else (joined or "") if is_value else "true"
            return is_value
        if flag in _ACTIONS:
            line.actions.add(_ACTIONS[flag])
            return False
        if spec is None and flag != _CONFIG_FILE:
            near = difflib.get_close_matches(flag, known, n=1)
            raise refuse(f"No such option {flag!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        if joined is None and not words:
            raise refuse(f"Option {flag!r} requires an argument.")
        value = words.pop() if joined is None else joined
        if spec is None:
            line.config_file = value
        else:
            line.values[spec.name] = value
        return True

    while words:
        word = words.pop()
        if word == "--":
            positional += reversed(words)
            break
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            take(name, value if equals else None)
        elif word.startswith("-") and word != "-":
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if take(f"-{letter}", letters.removeprefix("=") or None):
                    break
        else:
            positional.append(word)
    arguments = [spec.name for spec in specs if spec.is_argument]
    if len(positional) > len(arguments):
        raise refuse(f"Got unexpected extra argument ({' '.join(map(repr, positional[len(arguments) :]))}).")
    line.values.update(zip(arguments, positional, strict=False))
    return line
