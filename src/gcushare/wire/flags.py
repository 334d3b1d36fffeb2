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
    after ``=``; pass them if they are known. Then every other flag takes the next argument, as with pflag, and flags
    have two dashes. Without ``switches``, an argument that begins with a dash is never a value, and flags may have one
    dash, as with Go's ``flag`` package.
    """
    flags: list[Flag] = []
    skipped = -1
    for index, argument in enumerate(arguments):
        is_flag = argument.startswith("-" if switches is None else "--") and argument.strip("-") != ""
        if index == skipped or not is_flag:
            continue
        written, equals, value = argument.lstrip("-").partition("=")
        name = written.replace("_", "-")
        following = arguments[index + 1] if index + 1 < len(arguments) else None
        is_switch = following is None or (following.startswith("-") if switches is None else name in switches)
        if equals or is_switch or following is None:
            flags.append(Flag(name, value if equals else "true", index, index))
        else:
            flags.append(Flag(name, following, index, index + 1))
            skipped = index + 1
    return tuple(flags)


def effective(flags: Sequence[Flag], name: str) -> Flag | None:
    """Find the flag that takes effect: the last one with that name."""
    return next((flag for flag in reversed(flags) if flag.name == name), None)
