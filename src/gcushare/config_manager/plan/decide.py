"""Decide how to change or restore a scheduler's files: pure functions from an observation to a plan.

One backup is kept: it is written if its content is not the scheduler's file without our change.
"""

from __future__ import annotations

import posixpath
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from gcushare.config_manager.host.files import FileState
from gcushare.config_manager.host.launch import TAG_LENGTH, ConfigTarget, own_flag, written_flag
from gcushare.config_manager.host.paths_and_record import Layout, Record, sha256
from gcushare.config_manager.plan import manual_lines
from gcushare.config_manager.plan.config_access import readable_config
from gcushare.config_manager.plan.observe import ObservedScheduler
from gcushare.config_manager.plan.steps import AwaitScheduler, Plan, RemoveFile, Restart, Step, Switch, WriteFile
from gcushare.config_manager.scheduler_config.document import ConfigDocument, check_vendors, merged_config, new_config
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.config_manager.scheduler_config.versions import ConfigFormat, Version
from gcushare.core.errors import ConfigError
from gcushare.wire.flags import effective

_RECORD_MODE = 0o600


def plan_apply(observed: ObservedScheduler, extender: ExtenderEntry, version: Version, *, restart: bool) -> Plan:
    """Plan to make the scheduler call the extender; the plan is empty if it does already.

    ``restart`` says whether to wait for the scheduler and, if systemd starts it, to restart it. The kubelet restarts a
    static pod by itself.

    The order makes every prefix safe: record, configuration and backup change nothing by themselves, and the
    scheduler's own file is replaced in one step, when everything that it refers to exists.

    Raises:
        ConfigError, Refused: the admin's configuration cannot be merged, or this scheduler does not read its format.
    """
    goal = _goal(observed, extender, version)
    notes = list(observed.notes)
    aside = [] if goal.record.is_adopted else _kept_aside(observed, notes)
    if aside:
        notes.append(f"the edit by hand is not used: {version} cannot read it")
    changes = _changes(observed, goal, aside)
    # If the last change of a unit was interrupted, it may not have been restarted. The file does not show that.
    is_restarted = goal.is_switched or (observed.layout.is_unit and (goal.is_config_new or observed.is_unproven))
    steps: tuple[Step, ...] = changes
    if restart and (changes or observed.record is None or not observed.record.is_proven):
        # Wait for the scheduler, then record that it was healthy. After a crash in between the next run waits again.
        if observed.layout.is_unit and is_restarted:
            steps += (Restart(unit=observed.layout.unit),)
        target = goal.target
        awaited = AwaitScheduler(flag=target.flag, value=target.path, restarted=is_restarted)
        steps += (awaited, _record_step(observed, msgspec.structs.replace(goal.record, is_proven=True)))
    if changes:
        steps = manual_lines.with_last_lines(steps, manual_lines.finished_lines(observed.layout))
    # An upgrade past 1.23 leaves the configuration in the other format, and a crash leaves temporary files.
    others = sorted(path for path in observed.layout.own_configs - {goal.target.path} if observed.snapshot[path])
    steps += tuple(RemoveFile(path=each) for each in (*others, *observed.leftovers))
    if not changes:
        notes.append("the scheduler's configuration is as it should be, nothing to change")
    if changes and observed.edited_since:
        notes.append(f"{observed.layout.target} was edited after gcushare changed it: those edits stay")
    if changes and observed.base is not None:
        notes.append(
            f"{observed.base.path} stays as it is, and recover needs it; {goal.target.path} has its contents and the "
            "extender"
        )
    if extender.is_https and extender.tls is None:
        notes.append("the extender's certificate is not verified: no CA was given (--tls-ca)")
    if changes and not restart:
        notes.append(_restart_note(observed.layout))
    return Plan(opening=manual_lines.opening_lines("modify", version), steps=steps, notes=tuple(notes))


def plan_recover(observed: ObservedScheduler, version: Version | None, *, restart: bool) -> Plan:
    """Plan to restore the scheduler's file and to remove all of our files."""
    layout = observed.layout
    notes = list(observed.notes)
    steps: list[Step] = []
    if observed.has_trace:
        restored = replace(observed.target_state, content=observed.pristine.text.encode())
        # By a rename of the backup if its content, owner and mode are right: that works on a full disk too.
        if layout.staging is not None and observed.snapshot[layout.backup] == restored:
            steps.append(Switch(source=layout.backup, target=layout.target))
        else:
            steps += _put(layout, restored)
    # If there is still a record, an earlier run may have ended after it restored the file and before it waited.
    if observed.has_trace or observed.record is not None:
        flag = observed.record.flag if observed.record is not None else "config"
        was = effective(observed.pristine.flags, flag)
        if layout.is_unit:
            steps.append(Restart(unit=layout.unit))
        value = was.value if was is not None else None
        is_restarted = observed.has_trace or layout.is_unit
        # Our copy of the admin's configuration may be the only one left, so it is removed after this wait.
        steps.append(AwaitScheduler(flag=flag, value=value, restarted=is_restarted))
        if observed.edited_since:
            notes.append(
                f"{layout.target} was edited after gcushare changed it: only gcushare's own change was removed, the "
                "other edits stay"
            )
        if not restart:
            notes.append(
                f"{_restart_note(layout)}; until then systemd would start it with a configuration that was removed"
            )
    steps += _kept_aside(observed, notes)
    steps += [RemoveFile(path=path) for path in layout.own_files if observed.snapshot[path] is not None]
    steps += [RemoveFile(path=path) for path in observed.leftovers]
    if not steps:
        notes.append("the scheduler's configuration contains nothing of gcushare, nothing to recover")
    done = manual_lines.with_recover_lines(layout, steps)
    if not restart:
        done = tuple(step for step in done if not isinstance(step, Restart | AwaitScheduler))
    return Plan(opening=manual_lines.opening_lines("recover", version), steps=done, notes=tuple(notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _WantedFiles:
    """The files as they must be after the plan."""

    target: ConfigTarget
    config: FileState
    scheduler_file: bytes
    record: Record
    is_config_new: bool
    is_switched: bool


def _goal(observed: ObservedScheduler, extender: ExtenderEntry, version: Version) -> _WantedFiles:
    document, is_adopted = _document(observed, extender, version)
    path = observed.layout.policy if document.format is ConfigFormat.POLICY else observed.layout.config
    content = document.text.encode()
    target = ConfigTarget(document.flag, path, sha256(content)[:TAG_LENGTH])
    state = observed.target_state
    original = observed.own_edited if is_adopted else observed.base
    copied = original.state if original else None
    user, uid = observed.pristine.user, observed.uid
    config = readable_config(content, state, copied, user, uid, is_secret=extender.is_secret)
    present = observed.snapshot[path]
    # If an admin's edit left our change complete, the scheduler needs no second restart.
    is_switched = not observed.target.points_at(target)
    scheduler_file = observed.pristine.pointed_at(target).text.encode() if is_switched else state.content
    before = observed.record
    was = written_flag(observed.pristine.words, target.flag)
    written = _with_newest(before.after_sha256 if before else (), state, sha256(scheduler_file))
    record = Record(
        target=observed.layout.target,
        before_sha256=sha256(observed.pristine.text.encode()),
        after_sha256=written,
        flag=target.flag,
        flag_was=was.value if was is not None else None,
        config=path,
        config_sha256=_with_newest(before.config_sha256 if before else (), present, sha256(content)),
        scheduler_version=str(version),
        is_proven=False,
        is_adopted=is_adopted,
    )
    return _WantedFiles(
        target=target,
        config=config,
        scheduler_file=scheduler_file,
        record=record,
        is_config_new=present is None or replace(present, label=config.label) != config,
        is_switched=is_switched,
    )


def _document(observed: ObservedScheduler, extender: ExtenderEntry, version: Version) -> tuple[ConfigDocument, bool]:
    """Make the configuration: from ours if it was edited by hand, else from the admin's, else a new one.

    Returns the configuration, and whether it contains an edit by hand. Raises as ``check_vendors`` and
    ``merged_config``.
    """
    flag = own_flag(observed.target.flags, observed.layout.own_configs)
    state = observed.snapshot[flag.value] if observed.has_trace and flag is not None else None
    with suppress(ConfigError):  # An edit that is no configuration is copied aside.
        if flag is not None and state is not None:
            check_vendors(state.content.decode(errors="replace"), flag.value, extender)
        if observed.own_edited is not None:
            merged = merged_config(observed.own_edited.text, observed.own_edited.path, extender)
            if merged.format.is_read_by(version):
                return merged, True
    if observed.base is None:
        return new_config(extender, version, observed.pristine.flags), False
    merged = merged_config(observed.base.text, observed.base.path, extender)
    if not merged.format.is_read_by(version):
        accepted = " or ".join(str(each) for each in ConfigFormat if each.is_read_by(version))
        raise ConfigError(
            f"{observed.base.path}: kube-scheduler {version} does not read {merged.format}: write it as {accepted}"
        )
    return merged, False


def _changes(observed: ObservedScheduler, goal: _WantedFiles, aside: list[Step]) -> tuple[Step, ...]:
    """List the necessary writes, the switch last; none if everything is in place. ``aside`` copies a lost edit."""
    layout = observed.layout
    pristine = replace(observed.target_state, content=observed.pristine.text.encode())
    backup = observed.snapshot[layout.backup]
    is_backup_there = backup is not None and backup.content == pristine.content
    if observed.record is not None and is_backup_there and not goal.is_config_new and not goal.is_switched:
        return ()
    # The edit is copied before the record is written: with the new record a later run would take the edit for ours.
    steps: list[Step] = [*aside, _record_step(observed, goal.record)]
    if goal.is_config_new:
        path = goal.target.path
        steps.append(WriteFile(path=path, state=goal.config, lines=manual_lines.copied_lines(layout, path)))
    if not is_backup_there:
        lines = manual_lines.backup_lines(layout, is_first=backup is None)
        steps.append(WriteFile(path=layout.backup, state=pristine, lines=lines))
    if goal.is_switched:
        steps += _put(layout, replace(pristine, content=goal.scheduler_file), manual_lines.edited_lines(layout))
    return tuple(steps)


def _record_step(observed: ObservedScheduler, record: Record) -> WriteFile:
    state = replace(observed.target_state, content=record.encoded(), mode=_RECORD_MODE)
    return WriteFile(path=observed.layout.record, state=state)


def _put(layout: Layout, state: FileState, lines: tuple[str, ...] = ()) -> list[Step]:
    """Replace the target in one step; a manifest is written outside the kubelet's directory if a rename reaches it."""
    if layout.staging is None:
        return [WriteFile(path=layout.target, state=state, lines=lines)]
    return [
        WriteFile(path=layout.staging, state=state, lines=lines),
        Switch(source=layout.staging, target=layout.target),
    ]


def _with_newest(sums: tuple[str, ...], file: FileState | None, newest: str) -> tuple[str, ...]:
    """Add the sum of what is to be written. The present file keeps its sum, so that it counts as ours until then."""
    present = None if file is None else sha256(file.content)
    return (*(item for item in sums if item != newest and item in (sums[-1], present)), newest)


def _kept_aside(observed: ObservedScheduler, notes: list[str]) -> list[Step]:
    """Keep a copy of our configuration if it was edited by hand."""
    edited = observed.own_edited
    state = observed.snapshot[edited.path] if edited is not None else None
    if edited is None or state is None or observed.aside_path is None:
        return []
    notes.append(f"{edited.path} was edited by hand after gcushare wrote it: kept as {observed.aside_path}")
    return [WriteFile(path=observed.aside_path, state=state)]


def _restart_note(layout: Layout) -> str:
    """What an admin who asked for no restart must do; only a unit can be left without one."""
    name = posixpath.basename(layout.unit)
    return (
        "systemd keeps a unit as it loaded it, and the scheduler its configuration as it read it: run now "
        f"`systemctl daemon-reload && systemctl restart {name}`"
    )
