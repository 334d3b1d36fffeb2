"""Read once everything on the host that a decision needs."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gcushare.config_manager.host.files import FileState, HostFiles, temporary_path
from gcushare.config_manager.host.launch import BY_HAND, CONFIG, own_flag, written_flag
from gcushare.config_manager.host.manifest_text import PodManifest, parse_manifest
from gcushare.config_manager.host.paths_and_record import (
    CONFIG_NAME,
    MANIFEST_NAME,
    POLICY_NAME,
    Layout,
    Record,
    SchedulerFile,
    parse_record,
    sha256,
)
from gcushare.config_manager.plan.base_config import BaseConfig, read_base
from gcushare.config_manager.plan.config_access import user_id
from gcushare.config_manager.plan.steps import Snapshot
from gcushare.config_manager.scheduler_config.old_schedulers import POLICY_FILE
from gcushare.core.errors import ConfigError, NotFoundError, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedScheduler:
    """One scheduler's files, read at one moment."""

    layout: Layout
    snapshot: Snapshot
    """The target and all of our files."""
    target: SchedulerFile
    pristine: SchedulerFile
    """The target without our change, with the edits that others made since."""
    has_trace: bool
    """Whether the target contains our change."""
    edited_since: bool
    """Whether the target was edited after our change."""
    record: Record | None
    uid: int | None
    """The user that runs the scheduler, and so must be able to read its configuration; None if it is not known."""
    base: BaseConfig | None
    """The configuration that the admin gave the scheduler."""
    own_edited: BaseConfig | None
    """Our configuration, if it contains an admin's edit: made since we wrote it, or taken over by an earlier run."""
    aside_path: str | None
    """Where a copy of ``own_edited`` is kept when the scheduler no longer reads it."""
    leftovers: tuple[str, ...]
    """Temporary files of a run that crashed."""
    notes: tuple[str, ...]

    @property
    def is_unproven(self) -> bool:
        """Whether the last change was interrupted before the scheduler was seen healthy with it."""
        return self.record is not None and not self.record.is_proven

    @property
    def was_seen_healthy(self) -> bool:
        """Whether the scheduler was seen healthy with the present files; not with an edit since our last run."""
        if self.is_unproven:
            return False
        edited = self.own_edited
        return edited is None or self.record is None or sha256(edited.state.content) in self.record.config_sha256

    @property
    def own_config(self) -> BaseConfig | None:
        """Our configuration that is there."""
        found = ((path, self.snapshot[path]) for path in sorted(self.layout.own_configs))
        return next((BaseConfig(path, state) for path, state in found if state is not None), None)

    @property
    def kept_copy(self) -> str:
        """Path of our file that the admin's settings are in; without a configuration the record, which is there too."""
        return self.layout.record if self.own_config is None else self.own_config.path

    @property
    def target_state(self) -> FileState:
        state = self.snapshot[self.layout.target]
        if state is None:
            raise NotFoundError(f"{self.layout.target!r} is gone")
        return state


def find_manifest(files: HostFiles, directory: str) -> str:
    """Find the one manifest that runs kube-scheduler among the static pods in ``directory``.

    Raises:
        NotFoundError: there is none.
        Refused: several, and none has the usual name; or a second file starts the same pod.
    """
    names = [name for name in files.names(directory) if not name.startswith(".")]
    found = dict(_read_manifests(files, [posixpath.join(directory, name) for name in names]))
    if MANIFEST_NAME in names:
        path = posixpath.join(directory, MANIFEST_NAME)
    elif not found:
        raise NotFoundError(
            f"no manifest in {directory!r} runs kube-scheduler: name it with --manifest; for a systemd unit use "
            f"--unit; for all others {BY_HAND}"
        )
    elif len(found) > 1:
        raise Refused(f"several manifests run kube-scheduler: {', '.join(found)}: name one with --manifest")
    else:
        path = next(iter(found))
    mine = found.get(path)
    for other, manifest in found.items():
        if other != path and mine and manifest and manifest.pod_name == mine.pod_name:
            raise Refused(
                f"{other!r} and {path!r} both start pod {mine.pod_name[1]!r}, and the kubelet runs only one of them: "
                "move the one that is a copy out of the directory"
            )
    return path


def _read_manifests(files: HostFiles, paths: Sequence[str]) -> Iterator[tuple[str, PodManifest | None]]:
    """Read those that run kube-scheduler; None for one that cannot be edited, which is refused only if it is chosen."""
    for path in paths:
        with suppress(Refused, ConfigError):  # a link, a directory, a broken file, or another program's
            state = files.read(path)
            if state is not None:
                try:
                    yield path, parse_manifest(state.content.decode(errors="replace"), path)
                except Refused:
                    yield path, None


def read_target(files: HostFiles, layout: Layout) -> tuple[FileState, SchedulerFile]:
    """Read and parse the scheduler's own file.

    Raises:
        NotFoundError: it does not exist; an admin may have moved it to stop the scheduler.
        ConfigError, Refused: it does not start a scheduler, or cannot be edited.
    """
    state = files.read(layout.target)
    if state is None:
        flag = "--unit" if layout.is_unit else "--manifest"
        raise NotFoundError(f"{layout.target!r} does not exist: name the scheduler's file with {flag}")
    return state, layout.parse(state)


def observe(files: HostFiles, layout: Layout, *, with_base: bool = True) -> ObservedScheduler:
    """Read the target, our files and, unless ``with_base`` is false (to recover), the admin's configuration.

    Raises:
        As ``read_target``, and ``ConfigError`` or ``Refused`` if the admin's configuration cannot be read.
    """
    target_state, target = read_target(files, layout)
    _check_directory(layout, target)
    snapshot = {path: files.read(path) for path in layout.own_files} | {layout.target: target_state}
    record, notes = _read_record(files, snapshot[layout.record], layout)
    pristine, has_trace, edited_since = _without_us(layout, target, snapshot, record)
    foreign = own_flag(pristine.flags, layout.own_configs)
    if foreign is not None:
        raise Refused(
            f"{layout.target}: --{foreign.name}={foreign.value} was set by another system that uses the same file "
            "name: uninstall or recover that one first"
        )
    strange = next((path for path in layout.own_files if snapshot[path]), None)
    if strange is not None and not (has_trace or record or notes):
        raise Refused(
            f"{strange!r} is not gcushare's, and would be replaced or removed: move it away, or give --files-dir, a "
            "directory of its own"
        )
    edited = None
    own = snapshot[record.config] if record is not None and record.config in layout.own_configs else None
    if record is not None and own and (record.is_adopted or sha256(own.content) not in record.config_sha256):
        edited = BaseConfig(record.config, own)
    temporary = {temporary_path(path) for path in (*layout.own_files, layout.target)}
    folders = {posixpath.dirname(path) for path in temporary}
    present = {posixpath.join(folder, name) for folder in folders for name in files.names(folder)}
    return ObservedScheduler(
        layout=layout,
        snapshot=snapshot,
        target=target,
        pristine=pristine,
        has_trace=has_trace,
        edited_since=edited_since,
        record=record,
        uid=user_id(files, pristine.user),
        base=read_base(files, layout, pristine) if with_base else None,
        own_edited=edited,
        aside_path=None if edited is None else _find_aside(files, edited),
        leftovers=tuple(sorted(temporary & present)),
        notes=notes,
    )


def find_directory(target: SchedulerFile) -> str | None:
    """Find the directory of the configuration that this program gave the scheduler, with any ``--files-dir``."""
    for flag in target.flags:
        directory, name = posixpath.split(flag.value)
        if flag.name in (CONFIG, POLICY_FILE) and name in (POLICY_NAME, CONFIG_NAME):
            return directory
    return None


def _check_directory(layout: Layout, target: SchedulerFile) -> None:
    """Refuse another directory than that of an earlier change: its record and backup are needed to undo it."""
    directory = find_directory(target)
    if directory not in (None, layout.directory):
        raise Refused(
            f"{layout.target}: it was changed by a gcushare-config-manager with its files in {directory!r}, not in "
            f"{layout.directory!r}: recover it there first (--files-dir {directory}; the chart's "
            "configManager.filesDir)"
        )


def _without_us(
    layout: Layout, target: SchedulerFile, snapshot: Snapshot, record: Record | None
) -> tuple[SchedulerFile, bool, bool]:
    """Compute ``pristine``, ``has_trace`` and ``edited_since`` of ``ObservedScheduler``."""
    ours = own_flag(target.flags, layout.own_configs)
    if not target.has_trace(layout.own_configs) and (record is None or ours is None):
        return target, False, False
    backup = snapshot[layout.backup]
    if record is not None:
        is_as_written = sha256(target.text.encode()) in record.after_sha256
        if is_as_written and backup and sha256(backup.content) == record.before_sha256:
            return layout.parse(backup), True, False
        was = record.flag_was
    else:
        was = _value_of_backup(layout, target, ours.name, backup) if ours else None
    return target.without_trace(layout.own_configs, was), True, True


def _value_of_backup(layout: Layout, target: SchedulerFile, name: str, backup: FileState | None) -> str | None:
    """Read the flag's value before our change from the backup: without a record, hardly anything else shows it.

    Raises:
        Refused: the backup is gone or damaged. To go on would drop the admin's own configuration.
    """
    try:
        if backup is None:
            raise ConfigError(f"{layout.backup} is gone")
        earlier = written_flag(layout.parse(backup, layout.backup).words, name)
    except (ConfigError, Refused) as error:
        if not target.may_read_others:
            return None
        raise Refused(
            f"{layout.target}: it is not known what --{name} was before gcushare changed it: there is no record that "
            f"can be read ({layout.record}), and the backup cannot be used: {error}: put the former value in place of "
            "gcushare's, or take gcushare's flag out if there was none, and run this again"
        ) from error
    return None if earlier is None else earlier.value


def _read_record(files: HostFiles, state: FileState | None, layout: Layout) -> tuple[Record | None, tuple[str, ...]]:
    if state is None:
        return None, ()
    try:
        record = parse_record(state.content, layout.record)
    except ConfigError as error:
        return None, (f"the record of the last change is not used: {error}",)
    if record.target != layout.target and files.read(record.target) is None:
        return None, (f"the record of the last change is not used: {record.target} is gone",)
    if record.target != layout.target:
        raise Refused(
            f"{layout.record}: gcushare changed {record.target!r} with its files in {layout.directory!r}, and not "
            f"{layout.target!r}: recover that one first, with this one moved away meanwhile if it took its place; if "
            "both start a scheduler of this host, give this one --files-dir, a directory of its own"
        )
    return record, ()


def _find_aside(files: HostFiles, edited: BaseConfig) -> str:
    """Choose the name of the copy; it contains a checksum if another edit already has the usual name."""
    usual = f"{edited.path}.edited"
    content = edited.state.content
    try:
        kept = files.read(usual)
    except Refused:
        is_free = False  # a link, or a directory: not ours to replace
    else:
        is_free = kept is None or kept.content == content
    return usual if is_free else f"{usual}-{sha256(content)[:8]}"
