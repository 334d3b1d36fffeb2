"""Splits a command line into the texts of settings. `loading` parses the texts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.declare import Spec
from gcushare.runtime.settings.old_flags import OldFlag

_ACTIONS = {"-h": "help", "--help": "help", "--version": "version", "--print-config": "config"}
_LIKENESS = 0.8
"""How like a known name a word with one dash is, from 0 to 1, to be that name misspelt."""


def _spellings(written: str) -> tuple[str, ...]:
    """A flag as it is written, and with the number of dashes that its name has here."""
    name = written.removeprefix("-").removeprefix("-")
    return written, f"-{name}" if len(name) == 1 else f"--{name}"


class CommandLine:
    """Parses the arguments after the program's name, in the forms of GNU and of Go's programs.

    ``--name VALUE``, ``--name=VALUE``, ``-n VALUE``, ``-n=VALUE``, ``-nVALUE``; a name may have one dash or two.
    Switches have no value, or ``=false``, or the form ``--no-name``; short ones may be combined. ``--`` ends the flags.
    If a flag is given twice, the last one counts. ``old`` are flags of the programs that this one replaces; ``note``
    takes a sentence about how each of them is handled.

    Raises (constructor):
        ConfigError: an unknown flag (with the nearest known one), a missing value, an extra argument, or an old flag
            that is unsupported.
    """

    def __init__(
        self,
        program: str,
        specs: Sequence[Spec],
        argv: Sequence[str],
        old: Mapping[str, OldFlag],
        note: Callable[[str], object],
    ) -> None:
        self._program = program
        self._old = old
        self._note = note
        self._flags = {word: spec for spec in specs if not spec.is_argument for word in spec.words}
        self._rest = list(reversed(argv))
        """The remaining arguments, the next one last."""
        self.values: dict[str, str] = {}
        """The texts by setting name."""
        self.actions: set[str] = set()
        """What to print: any of help, version and config."""
        arguments = [spec.name for spec in specs if spec.is_argument]
        positional: list[str] = []
        while self._rest:
            word = self._rest.pop()
            if word == "--":
                positional += reversed(self._rest)
                break
            if not word.startswith("-") or word == "-":
                positional.append(word)
                continue
            written, equals, value = word.partition("=")
            flag = next((each for each in _spellings(written) if each in self._flags or each in _ACTIONS), None)
            if flag is None and (old_flag := self._find_old(written)) is not None:
                self._read_old(written, old_flag, value if equals else None)
            elif flag is not None or written.startswith("--"):
                self._read_flag(flag or written, value if equals else None)
            else:
                self._read_letters(word)
        extra = positional[len(arguments) :]
        if extra:
            raise self._refusal(f"Got unexpected extra argument ({' '.join(map(repr, extra))}).")
        self.values.update(zip(arguments, positional, strict=False))

    def _find_old(self, written: str) -> OldFlag | None:
        """Find a flag of an older program. Those with pflag take dashes in place of underscores."""
        name = written.removeprefix("-").removeprefix("-")
        return self._old.get(name) or self._old.get(name.replace("-", "_"))

    def _read_old(self, written: str, flag: OldFlag, joined: str | None) -> None:
        """Put our own arguments in the place of an old flag and its value.

        A command without a log has no flags for it: there the value is only checked.
        """
        if joined is None:
            joined = "true" if flag.is_switch else self._rest.pop() if self._rest else ""
        try:
            arguments, note = flag.read(joined)
        except ValueError as error:
            raise ConfigError(f"flag {written} is not accepted: {error}") from None
        if "--log-level" in self._flags:
            self._rest.extend(reversed(arguments))
            self._note(f"{written} {note}")

    def _read_letters(self, word: str) -> None:
        """Parse short flags in one argument, up to the first one that takes a value: the rest is its value.

        A long name with one dash, but misspelt, is refused: its letters would mean something else.
        """
        words = (*self._flags, *_ACTIONS, *(f"-{name}" for name in self._old))
        names = {each.lstrip("-"): each for each in words if len(each) > 2}
        if near := difflib.get_close_matches(word[1:].partition("=")[0], names, n=1, cutoff=_LIKENESS):
            raise self._refusal(f"No such option {word!r}. Did you mean {names[near[0]]!r}?")
        letters = word[1:]
        while letters:
            flag, letters = f"-{letters[0]}", letters[1:]
            spec = self._flags.get(flag)
            if letters.startswith("=") or (spec is not None and not spec.parser.is_switch and letters):
                self._read_flag(flag, letters.removeprefix("="))
                return
            self._read_flag(flag, None)

    def _read_flag(self, flag: str, joined: str | None) -> None:
        """Parse one flag and its value; ``joined`` is the value that the same argument has."""
        spec = self._flags.get(flag)
        is_switch = spec is not None and spec.parser.is_switch
        if joined is not None and (flag in _ACTIONS or (is_switch and flag.startswith("--no-"))):
            raise self._refusal(f"Option {flag!r} takes no value, not {joined!r}.")
        if flag in _ACTIONS:
            self.actions.add(_ACTIONS[flag])
            return
        if spec is None:
            near = difflib.get_close_matches(flag, [*self._flags, *_ACTIONS], n=1)
            raise self._refusal(f"No such option {flag!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        if is_switch:
            joined = joined if joined is not None else str(not flag.startswith("--no-")).lower()
        elif joined is None and not self._rest:
            raise self._refusal(f"Option {flag!r} requires an argument.")
        self.values[spec.name] = self._rest.pop() if joined is None else joined

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"{reason} Run '{self._program} --help' to see every setting.")
