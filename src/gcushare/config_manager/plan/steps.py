"""Plans as values: steps that can be shown, executed, interrupted and undone. ``decide`` chooses and orders them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gcushare.config_manager.host.files import FileState

Snapshot: TypeAlias = Mapping[str, FileState | None]
"""Every file that a plan may touch, by path; None if it does not exist."""


_PRIVATE_KEY = re.compile(r"""^([ \t]*+)(.*?keyData)(?:["']?\s*:\s*)?.*(?:\s*\n\1[ \t].*)*""", re.MULTILINE)
"""A key with its value: to the end of the line, or of the next if none is behind the colon, and of the deeper lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    lines: tuple[str, ...] = ()
    """Printed after the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFile(_Step):
    """Put ``state`` at ``path``."""

    path: str
    state: FileState


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(_Step):
    """Rename ``source`` over ``target``: the one moment at which the scheduler's file changes."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile(_Step):
    """Remove ``path`` if it exists."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(_Step):
    """Have systemd read its units again and restart one."""

    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitScheduler(_Step):
    """Wait until a healthy scheduler runs that was started with this flag's value (None: without the flag)."""

    flag: str
    value: str | None
    restarted: bool
    """Whether it must be another process than before the plan."""


Step: TypeAlias = WriteFile | Switch | RemoveFile | Restart | AwaitScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in an order whose every prefix leaves a scheduler that can start; each may be repeated."""

    opening: tuple[str, ...]
    """Lines printed before the first step."""
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    """What an admin should know about the decision."""


def changed(snapshot: Snapshot, step: Step) -> Snapshot:
    """Compute the files after ``step``, without touching any."""
    match step:
        case WriteFile(path=path, state=state):
            return {**snapshot, path: state}
        case Switch(source=source, target=target):
            return {**snapshot, target: snapshot[source], source: None}
        case RemoveFile(path=path):
            return {**snapshot, path: None}
        case Restart() | AwaitScheduler():
            return snapshot


def outcome(snapshot: Snapshot, plan: Plan) -> Snapshot:
    for step in plan.steps:
        snapshot = changed(snapshot, step)
    return snapshot


def way_back(before: Snapshot, now: Snapshot, target: str, staging: str | None) -> tuple[Step, ...]:
    """Plan the return from ``now`` to ``before``.

    The order: files that the scheduler's file refers to, then this file, then new files are removed. If a copy already
    holds the file's earlier content it is renamed into place, which works on a full disk too. Without a ``staging``
    path the file is written directly.
    """
    wanted = before[target]
    copies = [path for path in sorted(now) if path != target and wanted is not None and now[path] == wanted]
    others = sorted(set(before) - {target})
    steps = [_put_back(path, before[path]) for path in others if before[path] != now[path] and before[path]]
    steps = [step for step in steps if not isinstance(step, WriteFile) or step.path not in copies]
    if now[target] != wanted and wanted is not None:
        if staging is None:
            steps.append(WriteFile(path=target, state=wanted))
        elif copies:
            steps.append(Switch(source=copies[0], target=target))
        else:
            steps += [WriteFile(path=staging, state=wanted), Switch(source=staging, target=target)]
    here = now
    for step in steps:
        here = changed(here, step)
    return (*steps, *(_put_back(path, before[path]) for path in others if before[path] != here[path]))


def _put_back(path: str, state: FileState | None) -> Step:
    return RemoveFile(path=path) if state is None else WriteFile(path=path, state=state)


def describe(step: Step) -> str:
    match step:
        case WriteFile(path=path, state=state):
            return f"write {path} ({len(state.content)} bytes, mode {state.mode:04o})"
        case Switch(source=source, target=target):
            return f"rename {source} to {target}"
        case RemoveFile(path=path):
            return f"remove {path}"
        case Restart(unit=unit):
            return f"systemctl daemon-reload, then restart {unit}"
        case AwaitScheduler(flag=flag, value=value):
            started = f"with --{flag}={value}" if value is not None else f"without gcushare's --{flag}"
            return f"wait until kube-scheduler runs {started} and is healthy, else put everything back"


def render_diff(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Render the plan's changes as a unified diff of each file; private keys are masked."""
    after = outcome(snapshot, plan)
    for path in sorted(snapshot):
        old, new = snapshot[path], after[path]
        if old == new:
            continue
        yield from difflib.unified_diff(
            _lines(old), _lines(new), path if old else "/dev/null", path if new else "/dev/null", lineterm=""
        )


def _lines(state: FileState | None) -> list[str]:
    text = "" if state is None else state.content.decode(errors="replace")
    masked = _PRIVATE_KEY.sub(r"\1\2: (a private key)", text)
    return [line.rstrip("\r") for line in masked.split("\n")] if text else []
