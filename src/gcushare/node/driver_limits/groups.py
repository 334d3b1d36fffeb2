"""The control groups of pods on this machine, wherever the kubelet and the runtime made them. It blocks for a moment.

The tree is searched for names, as `cards.process_owners` describes them, so that neither the kubelet's driver for
them nor its ``--cgroup-root`` has to be known. Groups within a pod's group are the pod's own, whatever their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gcushare.cards.process_owners import find_pod_uid

_DEEPEST = 16
_KUBEPODS = "kubepods"
_FILES_OF_DMEM = "dmem.max"


@dataclass(frozen=True, slots=True)
class PodGroups:
    """All groups of pods, by the uid in their names; ``top`` is the one above them. ``problem``: why there are none."""

    pods: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    top: Path | None = None
    problem: str = ""


def find_pod_groups(root: Path) -> PodGroups:
    """Search the whole tree below ``root``, the folder of control groups of version 2."""
    if not (root / "cgroup.controllers").exists():
        return PodGroups(
            problem=f"no control groups of version 2 are at {str(root)!r}: the driver's limits need them "
            "(kernel option systemd.unified_cgroup_hierarchy=1); --cgroup-dir names another place"
        )
    pods: dict[str, tuple[Path, ...]] = {}
    tops: list[Path] = []
    for folder, is_top in _walk(root):
        if is_top:
            tops.append(folder)
        elif uid := _uid_of(root, folder):
            pods[uid] = (*pods.get(uid, ()), folder)
    if not tops:
        return PodGroups(problem=f"the kubelet has made no control groups of pods below {str(root)!r}")
    return PodGroups(pods, tops[0])


def child_groups(group: Path) -> tuple[Path, ...]:
    """The groups right below a pod's: those of its containers and its sandbox; none if the pod's is gone."""
    return tuple(sorted(_folders(group)))


def is_hierarchical(group: Path) -> bool:
    """Whether the kernel's controller keeps limits of this group, so that one above it bounds it too."""
    return (group / _FILES_OF_DMEM).exists()


def identity(group: Path) -> int | None:
    """What tells a group from another of the same path; None if it is gone."""
    try:
        return group.stat().st_ino
    except OSError:
        return None


def _walk(root: Path) -> Iterator[tuple[Path, bool]]:
    """The outermost groups of pods, and before them the groups that have them below (True)."""
    waiting = [(root, False, 0)]
    while waiting:
        folder, is_within, depth = waiting.pop()
        for each in sorted(_folders(folder)):
            if _uid_of(root, each):
                yield each, False
                continue
            # kubepods, kubepods.slice, kubelet-kubepods.slice
            is_top = not is_within and each.name.removesuffix(".slice").rpartition("-")[2] == _KUBEPODS
            if is_top:
                yield each, True
            if depth < _DEEPEST:
                waiting.append((each, is_within or is_top, depth + 1))


def _uid_of(root: Path, group: Path) -> str | None:
    return find_pod_uid(f"0::/{group.relative_to(root)}")


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(each.path) for each in entries if each.is_dir(follow_symlinks=False)]
    except OSError:  # it was removed meanwhile
        return []
