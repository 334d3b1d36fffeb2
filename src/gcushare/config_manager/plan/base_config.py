"""The admin's own configuration of a scheduler: find it on the host as the scheduler does, through mounts and links."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from gcushare.config_manager.host.files import FileState, HostFiles, behind_links
from gcushare.config_manager.host.launch import HEALTH_FLAGS, check_certain
from gcushare.config_manager.host.paths_and_record import Layout, SchedulerFile
from gcushare.config_manager.scheduler_config.document import READ_FLAGS, existing_config, format_of
from gcushare.config_manager.scheduler_config.versions import Version
from gcushare.config_manager.scheduler_config.yaml_text import YamlText
from gcushare.core.errors import ConfigError, Refused


@dataclass(frozen=True, slots=True)
class BaseConfig:
    """An existing configuration from which ours is made."""

    path: str
    state: FileState

    @property
    def text(self) -> str:
        """The contents. Raises ``ConfigError`` if they are not text."""
        return self.state.text(self.path)


def read_base(files: HostFiles, layout: Layout, pristine: SchedulerFile) -> BaseConfig | None:
    """Read the configuration to merge ours into; None if the scheduler's flags name none.

    Raises:
        As ``find_base``, and ``Refused`` if the scheduler's flags are not known for certain.
    """
    check_certain(pristine.words, READ_FLAGS | HEALTH_FLAGS, layout.target)
    return find_base(files, layout, pristine)


def find_base(files: HostFiles, layout: Layout, pristine: SchedulerFile) -> BaseConfig | None:
    """Read the configuration that the scheduler's flags name; None if they name none.

    Raises:
        ConfigError: it does not exist.
        Refused: it is not a file of the host, or a pod's is a link.
    """
    flag = existing_config(pristine.flags)
    if flag is None:
        return None
    is_relative = not flag.value.startswith("/")
    asked = posixpath.normpath(posixpath.join("/", pristine.directory if is_relative else "", flag.value))
    path = pristine.host_path(asked)
    if path is None:
        raise Refused(
            f"{layout.target}: --{flag.name}={flag.value} is not a file of the host, so it cannot be merged: put it "
            "into a hostPath volume, and name it by its absolute path"
        )
    # In a pod a link would lead to one of the pod's paths: it is refused.
    path = behind_links(files, path) if layout.is_unit else path
    state = files.read(path)
    if state is None:
        mounted = "" if layout.is_unit else "; a pod needs it mounted (the chart's configManager.readOnlyPaths)"
        raise ConfigError(f"{path!r}, which kube-scheduler reads by --{flag.name}, does not exist here{mounted}")
    return BaseConfig(path, state)


def check_restorable(
    files: HostFiles, layout: Layout, pristine: SchedulerFile, version: Version | None, copy: str
) -> None:
    """Check that kube-scheduler can read the configuration that it is to read without our change; ours is its ``copy``.

    Raises:
        Refused: it cannot, and would end.
    """
    try:
        base = find_base(files, layout, pristine)
        written = None if base is None else format_of(YamlText.parse(base.text, base.path))
        if base is not None and written is not None and version is not None and not written.is_read_by(version):
            raise ConfigError(f"{base.path}: kube-scheduler {version} does not read {written}")
    except Refused:
        return  # Not to be seen from here: whether the scheduler comes up decides.
    except ConfigError as error:
        raise Refused(
            f"without gcushare's change kube-scheduler would end, so nothing was changed: {error}. Put that file in "
            f"order, from {copy!r} without the extender's entry if there is no other copy, and recover then"
        ) from error
