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
    return _Parser(program, specs, argv).parse()


class _Parser:
    """Reads one command line from left to right."""

    def __init__(self, program: str, specs: Sequence[Spec], argv: Sequence[str]) -> None:
        self._program = program
        self._flags = {word: spec for spec in specs if not spec.is_argument for word in spec.words}
        self._arguments = [spec.name for spec in specs if spec.is_argument]
        self._rest = list(reversed(argv))
        """What is not read yet, the next one last."""
        self._line = CommandLine()

    def parse(self) -> CommandLine:
        positional: list[str] = []
        while self._rest:
            word = self._rest.pop()
            if word == "--":
                positional += reversed(self._rest)
                break
            if word.startswith("--"):
                name, equals, value = word.partition("=")
                self._read_flag(name, value if equals else None)
            elif word.startswith("-") and word != "-":
                self._read_letters(word[1:])
            else:
                positional.append(word)
        extra = positional[len(self._arguments) :]
        if extra:
            raise self._refusal(f"Got unexpected extra argument ({' '.join(map(repr, extra))}).")
        self._line.values.update(zip(self._arguments, positional, strict=False))
        return self._line

    def _read_letters(self, letters: str) -> None:
        """Read the short flags of one word; the first one that takes a value ends them."""
        while letters:
            letter, letters = letters[0], letters[1:]
            if self._read_flag(f"-{letter}", letters.removeprefix("=") or None):
                return

    def _read_flag(self, flag: str, joined: str | None) -> bool:
        """Read one flag and its value; returns whether ``joined``, the rest of its word, was the value."""
        spec = self._flags.get(flag)
        is_bare = flag in _ACTIONS or (spec is not None and spec.parser.is_switch and flag.startswith("--no-"))
        if is_bare and joined is not None and flag.startswith("--"):
            raise self._refusal(f"Option {flag!r} takes no value, not {joined!r}.")
        if spec is not None and spec.parser.is_switch:
            is_value = joined is not None and flag.startswith("--")
            value = "false" if flag.startswith("--no-") else (joined or "") if is_value else "true"
            self._line.values[spec.name] = value
            return is_value
        if flag in _ACTIONS:
            self._line.actions.add(_ACTIONS[flag])
            return False
        if spec is None and flag != _CONFIG_FILE:
            near = difflib.get_close_matches(flag, [*self._flags, *_ACTIONS, _CONFIG_FILE], n=1)
            raise self._refusal(f"No such option {flag!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        if joined is None and not self._rest:
            raise self._refusal(f"Option {flag!r} requires an argument.")
        value = self._rest.pop() if joined is None else joined
        if spec is None:
            self._line.config_file = value
        else:
            self._line.values[spec.name] = value
        return True

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"{reason} Run '{self._program} --help' to see every setting.")
