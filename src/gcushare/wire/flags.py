"""Parses the flags of other programs from command lines in manifests, systemd units and /proc."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: ``index`` is the argument it starts in, ``value_index`` the one that holds its value."""

    name: str
    value: str
    index: int
    value_index: int

    def rewritten(self, value: str, written_name: str) -> str:
        """Return the argument at ``value_index`` with ``value`` in it."""
        return value if self.value_index != self.index else f"{written_name}={value}"


def parse_flags(arguments: Sequence[str], switches: Collection[str] | None = None) -> tuple[Flag, ...]:
    """Read ``--name=value``, ``--name value`` and ``--name`` (the value ``true``), in order.

    Underscores in names count as dashes, as in Kubernetes' programs. ``switches`` are the flags that take a value only
    after ``=``; pass them if they are known. Then flags have two dashes, and nothing behind ``--`` is a flag, as with
    pflag. Without ``switches`` flags may have one dash, as with Go's ``flag`` package. What looks like a flag is never
    another flag's value, so that a switch that is not known hides nothing.
    """
    flags: list[Flag] = []
    dash = "-" if switches is None else "--"
    skipped = -1
    for index, argument in enumerate(arguments):
        if index == skipped or not argument.startswith(dash):
            continue
        if argument.strip("-") == "":
            if switches is not None and argument == "--":
                break
            continue
        written, equals, value = argument.lstrip("-").partition("=")
        name = written.replace("_", "-")
        following = arguments[index + 1] if index + 1 < len(arguments) else None
        if equals or following is None or following.startswith(dash) or name in (switches or ()):
            flags.append(Flag(name, value if equals else "true", index, index))
        else:
            flags.append(Flag(name, following, index, index + 1))
            skipped = index + 1
    return tuple(flags)


def effective(flags: Sequence[Flag], name: str) -> Flag | None:
    """Find the flag that takes effect: the last one with that name."""
    return next((flag for flag in reversed(flags) if flag.name == name), None)
