"""Read a program's command line the way pflag does: ``--name=value``, ``--name value``, ``--name``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CONFIG = "config"
POLICY_FILE = "policy-config-file"
POLICY_CONFIGMAP = "policy-configmap"

_BARE = frozenset(
    {"leader-elect", "profiling", "contention-profiling", "use-legacy-policy-config", "logtostderr", "alsologtostderr",
     "version", "show-hidden-metrics", "one-output", "add-dir-header", "skip-headers", "skip-log-headers"}
)  # fmt: skip
"""kube-scheduler's flags that take a value only after ``=``; every other one takes the next argument."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: ``index`` is the argument it starts in, ``value_index`` the one that holds its value."""

    name: str
    value: str
    index: int
    value_index: int

    def rewritten(self, value: str, written_name: str) -> str:
        """Write the argument at ``value_index`` anew with ``value``."""
        return value if self.value_index != self.index else f"{written_name}={value}"


def parse_flags(arguments: Sequence[str]) -> tuple[Flag, ...]:
    """Read every flag in order; underscores in names count as dashes, as kube-scheduler normalises them."""
    flags: list[Flag] = []
    skipped = -1
    for index, argument in enumerate(arguments):
        if index == skipped or not argument.startswith("--") or argument == "--":
            continue
        written, equals, value = argument[2:].partition("=")
        name = written.replace("_", "-")
        if equals:
            flags.append(Flag(name, value, index, index))
        elif name in _BARE or index + 1 >= len(arguments):
            flags.append(Flag(name, "true", index, index))
        else:
            flags.append(Flag(name, arguments[index + 1], index, index + 1))
            skipped = index + 1
    return tuple(flags)


def effective(flags: Sequence[Flag], name: str) -> Flag | None:
    """Find the flag that counts: the last one of that name."""
    return next((flag for flag in reversed(flags) if flag.name == name), None)
