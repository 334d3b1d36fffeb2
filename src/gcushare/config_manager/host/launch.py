"""How a kube-scheduler is started: its flags, and what static pod manifests and systemd units have in common."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gcushare.config_manager.scheduler_config.old_schedulers import POLICY_FILE
from gcushare.core.errors import Refused
from gcushare.wire.flags import Flag, effective, parse_flags

CONFIG = "config"

BY_HAND = (
    "configure it by hand with what `gcushare-config-manager render --scheduler-version VERSION` prints, or install "
    "the chart with scheduler.mode=second-scheduler"
)
"""What to do about a scheduler whose command line this program does not change."""

_NAME = re.compile(r"[a-z0-9-]+")

_SWITCHES = frozenset(
    {"add-dir-header", "alsologtostderr", "authentication-skip-lookup", "authentication-tolerate-lookup-failure",
     "contention-profiling", "disable-http2-serving", "emulation-forward-compatible", "help", "leader-elect",
     "experimental-logging-sanitization", "legacy-stderr-threshold-behavior", "log-json-split-stream",
     "log-text-split-stream", "logtostderr", "one-output", "permit-address-sharing", "permit-port-sharing", "profiling",
     "skip-headers", "skip-log-headers", "unsupported-kube-api-over-localhost", "use-legacy-policy-config", "version"}
)  # fmt: skip
"""kube-scheduler's flags, from 1.19 to 1.37, that take a value only after ``=``; others take the next argument too."""

TAG_LENGTH = 10
"""Hex digits of the configuration's sha256 that name it in a manifest: enough to distinguish two contents."""


@dataclass(frozen=True, slots=True)
class Word:
    """One argument as kube-scheduler gets it: its variables are replaced."""

    value: str
    written: int | None
    """Number of the file's argument that is exactly this one; None if it comes from variables."""
    problem: str = ""
    """Why the value is not known; ``value`` is then as written."""


def is_scheduler(arguments: Sequence[str]) -> bool:
    """Whether a command line runs kube-scheduler, as a program of its own or as a part of hyperkube."""
    names = [posixpath.basename(argument) for argument in arguments[:2]]
    return names[:1] == ["kube-scheduler"] or names in (["hyperkube", "kube-scheduler"], ["hyperkube", "scheduler"])


def scheduler_flags(arguments: Sequence[str]) -> tuple[Flag, ...]:
    """Read kube-scheduler's flags from its command line, as pflag does."""
    return parse_flags(arguments, _SWITCHES)


def flags_of(words: Sequence[Word]) -> tuple[Flag, ...]:
    return scheduler_flags([word.value for word in words])


def known_flags(words: Sequence[Word]) -> tuple[Flag, ...]:
    """List the flags whose values are known."""
    return tuple(flag for flag in flags_of(words) if not (words[flag.index].problem or words[flag.value_index].problem))


def written_flag(words: Sequence[Word], name: str) -> Flag | None:
    """Find the flag that takes effect if it stands in the file as it is read; ours can then replace its value."""
    flag = effective(flags_of(words), name)
    is_written = flag is not None and None not in (words[flag.index].written, words[flag.value_index].written)
    return flag if is_written else None


def check_certain(words: Sequence[Word], names: Collection[str], file: str) -> None:
    """Check that what the command line has of the flags ``names`` is known for certain.

    Raises:
        Refused: a value is not known; or a flag without a value stands before one of these flags, and may take it as
            its value, because kube-scheduler's switches of other versions are not known; or the same with ``--``.
    """
    if any(word.value == "--" for word in words):
        raise Refused(f"{file}: '--' ends kube-scheduler's flags, or is the value of the one before it: take it out")
    flags = flags_of(words)
    values = {index for flag in flags for index in (flag.index, flag.value_index)}
    for index, word in enumerate(words):
        if word.problem and index not in values:
            raise Refused(f"{file}: {word.value!r} may hold flags that matter, and {word.problem}")
    for flag, following in zip(flags, (*flags, None)[1:], strict=True):
        problem = words[flag.index].problem or words[flag.value_index].problem
        if problem and (flag.name in names or not _NAME.fullmatch(flag.name)):
            raise Refused(f"{file}: the value of --{flag.name}, {flag.value!r}, is not known: {problem}")
        is_bare = flag.value_index == flag.index and "=" not in words[flag.index].value
        if following and following.name in names and is_bare and flag.name not in _SWITCHES:
            raise Refused(
                f"{file}: --{flag.name} has no value, and kube-scheduler may take --{following.name} behind it as one: "
                f"write --{flag.name}=true if it is a switch, else write its value behind '='"
            )


@dataclass(frozen=True, slots=True)
class ConfigTarget:
    """Where a scheduler finds its configuration: a flag, the file, and a tag of its content.

    The tag is part of a volume's name in the manifest. The kubelet restarts a static pod only if its manifest changes,
    and a scheduler reads its configuration only when it starts.
    """

    flag: str
    path: str
    tag: str


@dataclass(frozen=True, slots=True)
class HealthEndpoint:
    """Where the scheduler reports its health."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/healthz"


def own_flag(flags: tuple[Flag, ...], own_paths: frozenset[str]) -> Flag | None:
    """Find the flag that names one of our files."""
    named = [flag for flag in flags if flag.name in (CONFIG, POLICY_FILE) and flag.value in own_paths]
    return named[-1] if named else None


HEALTH_FLAGS = frozenset({"secure-port", "bind-address", "port", "address"})


def health_endpoint(flags: Sequence[Flag]) -> HealthEndpoint:
    """Read the address from the flags: HTTPS, or with ``--secure-port=0`` the HTTP that versions up to 1.22 serve.

    Not from the pod's probe: every kube-scheduler answers there, and to everybody.
    """
    is_secure = _value(flags, "secure-port") != "0"
    scheme, port, address = ("https", "secure-port", "bind-address") if is_secure else ("http", "port", "address")
    host = _value(flags, address)
    # The one that it listens on. Go's "::" takes IPv4 too, and on a node without IPv6 nothing else.
    return HealthEndpoint(scheme, "127.0.0.1" if host in ("", "0.0.0.0", "::") else host, _port(flags, port))


def serves(flags: Sequence[Flag], port: int) -> bool:
    """Whether a scheduler with these flags listens on ``port``."""
    return port in (_port(flags, "secure-port"), _port(flags, "port"))


def _port(flags: Sequence[Flag], name: str) -> int:
    value = _value(flags, name)
    return int(value) if value.isdecimal() and value != "0" else {"secure-port": 10259, "port": 10251}[name]


def _value(flags: Sequence[Flag], name: str) -> str:
    flag = effective(flags, name)
    return "" if flag is None else flag.value
