"""The files of one scheduler on the host: its own, and those that this program writes, with the record of its change.

The names are the manual's (its chapters 3.2 and 5.1).
"""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from gcushare.config_manager.host.files import FileState
from gcushare.config_manager.host.manifest_text import PodManifest, parse_manifest
from gcushare.config_manager.host.systemd_unit import UnitFile, parse_unit
from gcushare.config_manager.host.unit_files import Surroundings
from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.wire.untrusted_json import BoundedJsonDecoder

SchedulerFile: TypeAlias = PodManifest | UnitFile
"""What starts a kube-scheduler. Both have the same attributes, which ``PodManifest`` documents."""

POLICY_NAME = "scheduler-extender-config.json"
CONFIG_NAME = "scheduler-extender-config-v1.23+.yaml"
RECORD_NAME = "gcushare-config-manager.json"
MANIFEST_NAME = "kube-scheduler.yaml"
BACKUP_NAME = "kube-scheduler.back.yaml"


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one scheduler: ``target`` is its static pod manifest or, with ``is_unit``, its systemd unit."""

    directory: str
    """Where this program's files go: /etc/kubernetes, or a directory of their own."""
    target: str
    is_unit: bool = False
    around: Surroundings = field(default_factory=Surroundings)
    """What a unit's command line depends on in addition to ``target``, one of its drop-ins if that holds it."""

    def __post_init__(self) -> None:
        example = "/etc/systemd/system/kube-scheduler.service" if self.is_unit else "/etc/kubernetes/manifests/x.yaml"
        for what, path, shown in (
            ("directory", self.directory, "/etc/kubernetes"),
            ("unit" if self.is_unit else "manifest", self.target, example),
        ):
            if not path.startswith("/") or posixpath.normpath(path) != path:
                raise ConfigError(
                    f"{what} {path!r} must be an absolute path such as {shown}, without '..' and final '/'"
                )
        if not self.is_unit and posixpath.dirname(self.target) == self.directory:
            raise ConfigError(
                f"{self.directory!r} is the directory of the static pods: the kubelet would start the backup kept in "
                "it as a second scheduler; name another one for gcushare's files"
            )

    @property
    def unit(self) -> str:
        """The unit that is restarted, by the path of its own file."""
        return self.around.unit or self.target

    @property
    def backup(self) -> str:
        """The copy of the target as it was before. There is only one: it is replaced when the target is."""
        return f"{self.directory}/{'kube-scheduler.back.service' if self.is_unit else BACKUP_NAME}"

    @property
    def staging(self) -> str | None:
        """Where the edited manifest is written before it is renamed into place; None writes it next to the target.

        Next to it means under a name that the kubelet ignores. That is needed unless ``directory`` is the parent of the
        kubelet's: a rename does not work from one mount of a pod to another.
        """
        holds_it = posixpath.dirname(posixpath.dirname(self.target)) == self.directory
        return None if self.is_unit or not holds_it else f"{self.directory}/{MANIFEST_NAME}"

    @property
    def record(self) -> str:
        return f"{self.directory}/{RECORD_NAME}"

    @property
    def policy(self) -> str:
        return f"{self.directory}/{POLICY_NAME}"

    @property
    def config(self) -> str:
        return f"{self.directory}/{CONFIG_NAME}"

    @property
    def own_configs(self) -> frozenset[str]:
        return frozenset({self.policy, self.config})

    @property
    def own_files(self) -> tuple[str, ...]:
        """Everything that only this program writes."""
        staging = (self.staging,) if self.staging is not None else ()
        return (self.backup, *staging, self.policy, self.config, self.record)

    def parse(self, state: FileState, path: str = "") -> SchedulerFile:
        """Parse the target's contents, or those of its copy at ``path``.

        Raises as ``parse_manifest`` and ``parse_unit`` do.
        """
        name = path or self.target
        text = state.text(name)
        return parse_unit(text, name, self.around) if self.is_unit else parse_manifest(text, name)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of one file that starts a scheduler."""

    version: Literal[1] = 1
    target: str
    """The manifest or unit that was changed."""
    before_sha256: str
    """Of the target before the change; the backup's content has the same."""
    after_sha256: tuple[str, ...]
    """Of the target as we wrote it, newest last, with the one before: the record is written first, so after a crash the
    target may still be the older one. With any other sum the target was edited since."""
    flag: str
    """Name of the flag that was set, without dashes."""
    flag_was: str | None
    """Its value before the change, None if it was not set."""
    config: str
    """Path of the configuration that was written."""
    config_sha256: tuple[str, ...]
    """Of the configuration, as ``after_sha256``."""
    scheduler_version: str
    is_proven: bool
    """Whether the scheduler was healthy with the change. False after a crash, so that the next run waits again."""
    is_adopted: bool = False
    """Whether the configuration contains an edit by hand. The next one is then made from it, and when it is removed a
    copy is kept."""

    def encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


RECORD = BoundedJsonDecoder(Record, "the record", limit_bytes=1024 * 1024)


def parse_record(content: bytes, name: str) -> Record:
    """Read a record back.

    Raises:
        ConfigError: not a record, or a version that this program does not know.
    """
    try:
        return RECORD.read(content)
    except RemoteContractError as error:
        raise ConfigError(
            f"{name}: not a record that this gcushare-config-manager can read (did a newer version write it?): {error}"
        ) from error
