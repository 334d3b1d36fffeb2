"""The flags of the Go programs that ours replace: what each becomes here, with a note about it.

glog and klog add their own flags to every Go program. A flag with the name of one of ours is ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


Understood: TypeAlias = tuple[tuple[str, ...], str]
"""The translation of an old flag: our own arguments, and the note for the user."""


@dataclass(frozen=True, slots=True)
class OldFlag:
    """A flag of an older program. ``read`` translates its value. ``is_switch``: it needs no value."""

    read: Callable[[str], Understood]
    is_switch: bool = False


def left_out(why: str, *, is_switch: bool = False, form: str = "", accepted: str = "") -> OldFlag:
    """A flag that is ignored because it needs no equivalent. Its value is not shown, because it may be a secret.

    A value that does not match ``form`` is refused: it may be the next argument.
    """

    def read(value: str) -> Understood:
        if is_switch and value not in _TRUE | _FALSE:
            raise ValueError("its value is true or false")
        if form and not re.fullmatch(form, value):
            raise ValueError(f"its value is {accepted}")
        return (), f"is left out: {why}"

    return OldFlag(read, is_switch)


def refused_switch(why: str) -> OldFlag:
    """A switch that is ignored if it is off, and refused if it is on."""

    def read(value: str) -> Understood:
        if value in _TRUE:
            raise ValueError(why)
        return (), "is left out: it is off"

    return OldFlag(read, is_switch=True)


def refused(why: str) -> OldFlag:
    """A flag for an unsupported feature."""

    def read(_value: str) -> Understood:
        raise ValueError(why)

    return OldFlag(read)


def _verbosity(value: str) -> Understood:
    if not value.isdecimal():
        raise ValueError("its value is a whole number, such as 5")
    level = "debug" if int(value) >= 4 else "info"
    return (f"--log-level={level}",), f"is taken as --log-level={level}"


_ON_STDERR = "the log goes to stderr always, and to --log-dir"
_SWITCHES = ("logtostderr", "alsologtostderr", "one_output", "add_dir_header", "skip_headers", "skip_log_headers")
GLOG_FLAGS: Mapping[str, OldFlag] = {
    **dict.fromkeys(_SWITCHES, left_out(_ON_STDERR, is_switch=True)),
    **dict.fromkeys(("log_file", "log_file_max_size", "log_flush_frequency"), left_out(_ON_STDERR)),
    "stderrthreshold": left_out(
        "--log-level holds for stderr and the file alike",
        form="(?i)info|warning|error|fatal|[0-9]+",
        accepted="INFO, WARNING, ERROR or FATAL",
    ),
    "v": OldFlag(_verbosity),
    "vmodule": left_out("--log-level holds for all modules", form="([^=,]+=[0-9]+,?)*", accepted="such as cache=2"),
    "log_dir": OldFlag(lambda value: ((f"--log-dir={value}",), "is taken as --log-dir")),
    "log_backtrace_at": left_out(
        "unexpected errors are logged with their stack always", form="([^:]+:[0-9]+)?", accepted="such as main.go:42"
    ),
}
