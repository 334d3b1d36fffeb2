"""How a kube-scheduler is started: its flags, and what static pod manifests and systemd units have in common."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from gcushare.config_manager.scheduler_config.old_schedulers import POLICY_FILE
from gcushare.core.errors import Refused
from gcushare.wire.flags import Flag, effective, parse_flags

CONFIG = "config"

_SWITCHES = frozenset(
    {"leader-elect", "profiling", "contention-profiling", "use-legacy-policy-config", "logtostderr", "alsologtostderr",
     "version", "show-hidden-metrics", "one-output", "add-dir-header", "skip-headers", "skip-log-headers"}
)  # fmt: skip
"""kube-scheduler's flags that take a value only after ``=``; every other flag takes the next argument."""

TAG_LENGTH = 10
"""Hex digits of the configuration's sha256 that name it in a manifest: enough to distinguish two contents."""


def is_scheduler(arguments: Sequence[str]) -> bool:
    """Whether a command line runs kube-scheduler, as a program of its own or as a part of hyperkube."""
    names = [posixpath.basename(argument) for argument in arguments[:2]]
    return names[:1] == ["kube-scheduler"] or names in (["hyperkube", "kube-scheduler"], ["hyperkube", "scheduler"])


def scheduler_flags(arguments: Sequence[str]) -> tuple[Flag, ...]:
    """Read kube-scheduler's flags from its command line, as pflag does."""
    return parse_flags(arguments, _SWITCHES)


def check_added(flags: Sequence[Flag], name: str, file: str) -> None:
    """Check that a flag added at the end of a command line is read as a flag.

    Raises:
        Refused: the last argument takes it as its value, or may do so: the flags of other versions that need a value
            are not known.
    """
    if not flags:
        raise Refused(
            f"{file}: --{name} added at the end of the command line would not be read as a flag: end it with a flag"
        )
    if effective(flags, name) is None:
        raise Refused(
            f"{file}: --{flags[-1].name} is at the end without a value, and could take --{name} as its value: "
            "write the value with '='"
        )


@dataclass(frozen=True, slots=True)
class RunsAs:
    """The user and the groups that a scheduler runs with, by name or number; without any it runs as root."""

    user: str = "0"
    groups: tuple[str, ...] = ()


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
    path: str
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def own_flag(flags: tuple[Flag, ...], own_paths: frozenset[str]) -> Flag | None:
    """Find the flag that names one of our files."""
    named = [flag for flag in flags if flag.name in (CONFIG, POLICY_FILE) and flag.value in own_paths]
    return named[-1] if named else None


def default_health(flags: Sequence[Flag]) -> HealthEndpoint:
    """Read the address from the flags: HTTPS, or with ``--secure-port=0`` the HTTP that versions up to 1.22 serve."""
    is_secure = _value(flags, "secure-port") != "0"
    scheme, port = ("https", _port(flags, "secure-port")) if is_secure else ("http", _port(flags, "port"))
    return HealthEndpoint(scheme, listening_host(flags, scheme), port, "/healthz")


def listening_host(flags: Sequence[Flag], scheme: str) -> str:
    """Find an address on which the scheduler listens for HTTPS (``--bind-address``) or HTTP (``--address``)."""
    host = _value(flags, "bind-address" if scheme == "https" else "address")
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)


def serves(flags: Sequence[Flag], port: int) -> bool:
    """Whether a scheduler with these flags listens on ``port``."""
    return port in (_port(flags, "secure-port"), _port(flags, "port"))


def _port(flags: Sequence[Flag], name: str) -> int:
    value = _value(flags, name)
    return int(value) if value.isdecimal() and value != "0" else {"secure-port": 10259, "port": 10251}[name]


def _value(flags: Sequence[Flag], name: str) -> str:
    flag = effective(flags, name)
    return "" if flag is None else flag.value
