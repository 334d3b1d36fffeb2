"""The lines that the manual prints for applying and recovering (its chapters 3.2 and 5.1), character by character.

If a file is not where the manual has it, the manual's path follows in brackets. A DaemonSet keeps its files in a
directory below the manual's, so that the cluster's keys are not mounted into its pod.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace

from gcushare.config_manager.host.files import temporary_path
from gcushare.config_manager.host.paths_and_record import BACKUP_NAME, CONFIG_NAME, MANIFEST_NAME, POLICY_NAME, Layout
from gcushare.config_manager.plan.steps import Step, Switch, WriteFile
from gcushare.config_manager.scheduler_config.versions import Version

_MANUAL_DIRECTORY = "/etc/kubernetes"


def opening_lines(action: str, version: Version | None) -> tuple[str, ...]:
    """The lines before the first step; ``action`` is modify or recover."""
    return (f"start {action} scheduler config...", f"check current k8s cluster version is {version or 'unknown'}")


def copied_lines(layout: Layout, config: str) -> tuple[str, ...]:
    return (f"copy scheduler extender config file success, for detail, see {_shown(layout, config)}",)


def backup_lines(layout: Layout, *, is_first: bool) -> tuple[str, ...]:
    """The lines of the written backup; the first backup is preceded by the line of the missing file."""
    name = posixpath.basename(layout.target)
    missing = (_missing(layout, layout.backup),) if is_first else ()
    return (*missing, f"backup {name} success, for detail, see {_shown(layout, layout.backup)}")


def edited_lines(layout: Layout) -> tuple[str, ...]:
    """The line of the edited manifest; the manual knows no units."""
    place = _shown(layout, layout.staging or layout.target)
    return () if layout.is_unit else (f"modify scheduler pod yaml template success, for detail, see {place}",)


def finished_lines(layout: Layout) -> tuple[str, ...]:
    return (f"modify kube-scheduler config finish, for detail, see {layout.target}",)


def with_recover_lines(layout: Layout, steps: list[Step]) -> tuple[Step, ...]:
    """Attach the lines of recovering: one to the step that restores the target, the others to the last step."""
    placed = list(steps)
    recovered = f"recover default scheduler success, for detail, see {layout.target}"
    for index, step in enumerate(placed):
        if isinstance(step, Switch) or (isinstance(step, WriteFile) and step.path == layout.target):
            placed[index] = replace(step, lines=(recovered,))
    if not placed:
        return ()
    edited = () if layout.is_unit else (layout.staging or temporary_path(layout.target),)
    gone = tuple(_missing(layout, path) for path in (layout.backup, *edited, layout.policy, layout.config))
    deleted = f"delete all scheduler config file success, for detail, see {_shown(layout, layout.directory)}"
    return with_last_lines(tuple(placed), (*gone, deleted))


def with_last_lines(steps: tuple[Step, ...], lines: tuple[str, ...]) -> tuple[Step, ...]:
    """Print ``lines`` after the last step."""
    return (*steps[:-1], replace(steps[-1], lines=(*steps[-1].lines, *lines)))


def _missing(layout: Layout, path: str) -> str:
    return f"stat {path}: no such file or directory{_manual_path(layout, path)}"


def _shown(layout: Layout, path: str) -> str:
    return f"{path}{_manual_path(layout, path)}"


def _manual_path(layout: Layout, path: str) -> str:
    """Return the manual's path in brackets, if it is not ``path``."""
    if path in (layout.staging, temporary_path(layout.target), layout.target):
        name = MANIFEST_NAME
    else:
        name = "" if path == layout.directory else posixpath.basename(path)
    manual = posixpath.join(_MANUAL_DIRECTORY, name).rstrip("/")
    is_known = not layout.is_unit and name in ("", BACKUP_NAME, MANIFEST_NAME, POLICY_NAME, CONFIG_NAME)
    return f" (in the manual {manual})" if is_known and path != manual else ""
