"""The control groups of pods on this machine, wherever the kubelet and the runtime made them, and their limits.

The tree is searched for names, as `cards.process_owners` describes them, so that neither the kubelet's driver for
them nor its ``--cgroup-root`` has to be known. Groups within a pod's group are the pod's own, whatever their names.
The search blocks for a moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gcushare.cards.ports import GroupMemory, LimitSource
from gcushare.cards.process_owners import find_pod_uid
from gcushare.core.cards import Card
from gcushare.core.errors import DeviceError

_STEP = 2 << 20
"""A driver may keep whole pages only: a limit that is smaller by less than this is the one that was set."""
NO_GROUP_MEMORY = GroupMemory(hard_bytes=None, used_bytes=0)
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


def is_kept(found: GroupMemory, hard_bytes: int) -> bool:
    """Whether a group has this limit."""
    return found.hard_bytes is not None and hard_bytes - _STEP < found.hard_bytes <= hard_bytes


class GroupLimits:
    """The limits that this process has set, by group and card; another one sets them again and reads the same."""

    def __init__(self, source: LimitSource) -> None:
        self._source = source
        self._set: dict[tuple[str, int | None, str], int] = {}
        self.lost = 0
        """Limits that were set here and that the driver did not have any more; what reports them sets it to 0."""

    async def read(self, group: Path, card: Card) -> GroupMemory:
        """Read a group; without its own limit it may report that of a group above it.

        Raises:
            DeviceError: the driver has no such limits, or does not answer.
        """
        return await self._source.group_memory(card, str(group)) or NO_GROUP_MEMORY

    async def keep(
        self, group: Path, card: Card, hard_bytes: int, *, may_rise: bool = True
    ) -> tuple[GroupMemory, GroupMemory]:
        """Have a group keep this limit, or what it uses if that is more; returns what it had before and has now.

        Without ``may_rise`` only a higher limit that is there changes.

        Raises:
            DeviceError: it does not.
        """
        before, key = await self.read(group, card), _key(group, card)
        if not may_rise and (before.hard_bytes is None or before.hard_bytes <= hard_bytes):
            return before, before
        target = hard_bytes
        if key in self._set:
            if is_kept(before, hard_bytes):
                return before, before
            if before.hard_bytes is None:
                self.lost += 1
            # Without a limit of its own the group may have reported the use of one above it.
            target = max(hard_bytes, before.used_bytes)
            if is_kept(before, target):
                return before, before
        try:
            now = await self._source.limit_group(card, str(group), target)
        except DeviceError:
            used = (await self.read(group, card)).used_bytes
            if used <= target:
                raise
            target = used  # it has allocated more since it was read
            now = await self._source.limit_group(card, str(group), target)
        now = now or NO_GROUP_MEMORY
        if not is_kept(now, target):
            raise DeviceError(f"the driver took a limit of {target} bytes for {str(group)!r} and has {now.hard_bytes}")
        self._set[key] = target
        return before, now

    def has_set(self, group: Path, card: Card) -> bool:
        """Whether this process has set a limit of this very group."""
        return _key(group, card) in self._set

    async def put(self, group: Path, card: Card, hard_bytes: int | None) -> None:
        """Set the limit of a container's group, which is not looked for again; None removes it.

        Raises:
            DeviceError: the driver refuses.
        """
        await self._source.limit_group(card, str(group), hard_bytes)

    def forget_others(self, present: set[Path]) -> None:
        """Forget the groups that are not there any more."""
        self._set = {key: hard for key, hard in self._set.items() if Path(key[0]) in present}


def _key(group: Path, card: Card) -> tuple[str, int | None, str]:
    """Tells a group from a later one of the same path."""
    try:
        return str(group), group.stat().st_ino, card.uuid
    except OSError:  # it is gone
        return str(group), None, card.uuid


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
