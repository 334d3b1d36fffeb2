"""Set the hard limit of a control group and read it back; a limit below what is in use becomes what is in use."""

from __future__ import annotations

from pathlib import Path

from gcushare.cards.ports import GroupMemory, LimitSource
from gcushare.core.cards import Card
from gcushare.core.errors import DeviceError
from gcushare.node.driver_limits import groups

_STEP = 2 << 20
"""A driver may keep whole pages only: a limit that is smaller by less than this is the one that was set."""
NO_GROUP_MEMORY = GroupMemory(hard_bytes=None, used_bytes=0)


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

    async def keep(self, group: Path, card: Card, hard_bytes: int) -> tuple[GroupMemory, GroupMemory]:
        """Have a group keep this limit, or what it uses if that is more; returns what it had before and has now.

        Raises:
            DeviceError: it does not.
        """
        target, key = hard_bytes, (str(group), groups.identity(group), card.uuid)
        before = await self.read(group, card)
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

    async def remove(self, group: Path, card: Card) -> None:
        """Remove a group's own limit.

        Raises:
            DeviceError: the driver refuses.
        """
        await self._source.limit_group(card, str(group), None)

    def forget_others(self, present: set[Path]) -> None:
        """Forget the groups that are not there any more."""
        self._set = {key: hard for key, hard in self._set.items() if Path(key[0]) in present}
