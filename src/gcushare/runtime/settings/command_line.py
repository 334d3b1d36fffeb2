"""Splits a command line into the texts of settings. `loading` parses the texts."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.declare import Spec

_ACTIONS = {"-h": "help", "--help": "help", "--version": "version", "--print-config": "config"}
_CONFIG_FILE = "--config-file"
COMMON_FLAGS = frozenset(word.lstrip("-") for word in (*_ACTIONS, _CONFIG_FILE))
"""Flags of every program, without dashes."""


class CommandLine:
    """Parses the arguments after the program's name, in the forms of GNU and of Go's programs.

    ``--name VALUE``, ``--name=VALUE``, ``-n VALUE``, ``-nVALUE``. Switches have no value, or ``=false``, or the form
    ``--no-name``; short ones may be combined. ``--`` ends the flags. If a flag is given twice, the last one counts.

    Raises (constructor):
        ConfigError: an unknown flag (with the nearest known one), a missing value, or an extra argument.
    """

    def __init__(self, program: str, specs: Sequence[Spec], argv: Sequence[str]) -> None:
        self._program = program
        self._flags = {word: spec for spec in specs if not spec.is_argument for word in spec.words}
        self._rest = list(reversed(argv))
        """The remaining arguments, the next one last."""
        self.values: dict[str, str] = {}
        """The texts by setting name."""
        self.config_file: str | None = None
        self.actions: set[str] = set()
        """What to print: any of help, version and config."""
        arguments = [spec.name for spec in specs if spec.is_argument]
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
                letters = word[1:]  # short flags, up to the first one that takes a value
                while letters and not self._read_flag(f"-{letters[0]}", letters[1:].removeprefix("=") or None):
                    letters = letters[1:]
            else:
                positional.append(word)
        extra = positional[len(arguments) :]
        if extra:
            raise self._refusal(f"Got unexpected extra argument ({' '.join(map(repr, extra))}).")
        self.values.update(zip(arguments, positional, strict=False))

    def _read_flag(self, flag: str, joined: str | None) -> bool:
        """Parse one flag and its value; returns whether ``joined``, the rest of the argument, was the value."""
        spec = self._flags.get(flag)
        is_bare = flag in _ACTIONS or (spec is not None and spec.parser.is_switch and flag.startswith("--no-"))
        if is_bare and joined is not None and flag.startswith("--"):
            raise self._refusal(f"Option {flag!r} takes no value, not {joined!r}.")
        if spec is not None and spec.parser.is_switch:
            is_value = joined is not None and flag.startswith("--")
            value = "false" if flag.startswith("--no-") else (joined or "") if is_value else "true"
            self.values[spec.name] = value
            return is_value
        if flag in _ACTIONS:
            self.actions.add(_ACTIONS[flag])
            return False
        if spec is None and flag != _CONFIG_FILE:
            near = difflib.get_close_matches(flag, [*self._flags, *_ACTIONS, _CONFIG_FILE], n=1)
            raise self._refusal(f"No such option {flag!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        if joined is None and not self._rest:
            raise self._refusal(f"Option {flag!r} requires an argument.")
        value = self._rest.pop() if joined is None else joined
        if spec is None:
            self.config_file = value
        else:
            self.values[spec.name] = value
        return True

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"{reason} Run '{self._program} --help' to see every setting.")
