"""The words of a command line before any meaning: which are flags, which their values, which stand for themselves."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gcushare.runtime.settings.declare import Spec

_COMMON_SWITCHES = ("--help", "-h", "--version", "--print-config")
_COMMON_VALUES = ("--config-file",)
_ALIASES = {"--as": "--act-as", "--as-group": "--act-as-group"}
"""kubectl's words for settings whose own name Python keeps for itself."""


class Kind(enum.Enum):
    """What a word is."""

    SWITCH = "switch"
    FLAG = "flag"
    VALUE = "value"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class Word:
    """One word; ``flag`` is the long name of the flag that it is, or is the value of."""

    text: str
    kind: Kind
    flag: str = ""


@dataclass(frozen=True, slots=True)
class Grammar:
    """Which flags there are, by every spelling, and whether each takes a value."""

    names: dict[str, str]
    switches: frozenset[str]

    @classmethod
    def of(cls, specs: Iterable[Spec]) -> Grammar:
        """The flags of these settings and those that every command has."""
        names = {each: each for each in (*_COMMON_SWITCHES, *_COMMON_VALUES)}
        switches = set(_COMMON_SWITCHES)
        for spec in specs:
            if spec.is_argument:
                continue
            names[spec.flag] = spec.flag
            if spec.declared.short:
                names[spec.declared.short] = spec.flag
            if spec.parser.is_switch:
                switches.add(spec.flag)
                names[f"--no-{spec.name}"] = spec.flag
        return cls(names, frozenset(switches))

    def read(self, argv: Sequence[str]) -> list[Word]:
        """Tell the words apart, as the parser of the settings will; an unknown flag counts as a switch."""
        words: list[Word] = []
        awaited = ""
        is_literal = False
        for text in argv:
            if awaited:
                words.append(Word(text, Kind.VALUE, awaited))
                awaited = ""
            elif is_literal or not text.startswith("-") or text == "-":
                words.append(Word(text, Kind.BARE))
            elif text == "--":
                is_literal = True
                words.append(Word(text, Kind.SWITCH))
            else:
                flag, has_value = self._flag_of(text)
                is_switch = has_value or not flag or flag in self.switches
                words.append(Word(text, Kind.SWITCH if is_switch else Kind.FLAG, flag))
                awaited = "" if is_switch else flag
        return words

    def _flag_of(self, text: str) -> tuple[str, bool]:
        """The flag's long name, empty when unknown, and whether its value is in the same word."""
        name, equals, _ = text.partition("=")
        if name.startswith("--"):
            return self.names.get(name, ""), bool(equals)
        # -dn demo: switches may be joined; the first that takes a value takes the rest of the word.
        for place, letter in enumerate(text[1:], start=1):
            flag = self.names.get(f"-{letter}", "")
            if not flag or flag not in self.switches:
                return flag, place + 1 < len(text)
        return self.names.get(text[:2], ""), True


def take_command(words: Sequence[Word], commands: Iterable[str]) -> tuple[str, list[str]]:
    """Find the command, the first word that stands for itself, and the arguments without it; empty where it is none."""
    known = set(commands)
    place = next((index for index, word in enumerate(words) if word.kind is Kind.BARE), None)
    texts = [word.text for word in words]
    if place is None or words[place].text not in known:
        return "", texts
    return words[place].text, [*texts[:place], *texts[place + 1 :]]


def spell_out(argv: Sequence[str]) -> list[str]:
    """Replace kubectl's words for flags that are called differently here."""
    spelled: list[str] = []
    for text in argv:
        name, equals, value = text.partition("=")
        spelled.append(f"{_ALIASES[name]}{equals}{value}" if name in _ALIASES else text)
    return spelled
