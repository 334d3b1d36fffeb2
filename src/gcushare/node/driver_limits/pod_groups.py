"""Set the limits of one pod: in its own groups, in those of its containers, and of the cards that it does not hold."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from gcushare.cards.ports import GroupMemory
from gcushare.core.cards import Card, Inventory
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields
from gcushare.node.driver_limits.control_groups import child_groups, is_hierarchical, is_kept
from gcushare.node.driver_limits.driver_limiter import DriverLimiter
from gcushare.node.driver_limits.pod_amounts import LEAST_BYTES, PodLimit

logger = logging.getLogger(__name__)

HASTY_FOR_S = 15.0
"""How long after a container was to be created its group is looked for, and what is in it may change."""


class PodGroupLimits:
    """The limits of a pod with these groups, as they should be."""

    def __init__(
        self, limiter: DriverLimiter, inventory: Inventory | None, limit: PodLimit, found: tuple[Path, ...]
    ) -> None:
        self._limiter = limiter
        self._groups = limiter.groups
        self._inventory = inventory
        self._limit = limit
        self._found = found

    async def keep(self, amounts: Mapping[int, int], *, may_rise: bool) -> dict[int, int]:
        """Set the limits of the cards that the pod shares; returns what it uses of each.

        ``amounts``: what a new container gets of them. Without ``may_rise`` only limits that are too high change. What
        does not fall as far as it should counts as used, because the pod may take it at any moment.

        Raises:
            DeviceError: a limit cannot be set.
        """
        used: dict[int, int] = {}
        for index, hard_bytes in self._limit.hard.items():
            if hard_bytes is None:
                continue
            card = await self._limiter.find(self._inventory, index)
            for group in self._found:
                before, now = await self._groups.keep(group, card, hard_bytes, may_rise=may_rise)
                hard_now = now.hard_bytes or 0
                used[index] = used.get(index, 0) + (hard_now if hard_now > hard_bytes else now.used_bytes)
                await self._keep_children(group, card, before, now, amounts.get(index))
        return used

    async def _keep_children(
        self, group: Path, card: Card, before: GroupMemory, now: GroupMemory, amount: int | None
    ) -> None:
        """Set what a pod's containers see of a card, within what the pod has; ``amount`` is that of a new one.

        With the kernel's controller a container without a limit of its own sees the whole card. Without it a limit of
        its own would count in place of the pod's.
        """
        if (most := now.hard_bytes) is None:
            return
        for child in child_groups(group):
            try:
                found = await self._groups.read(child, card)
                own = found.hard_bytes
                if not is_hierarchical(child):
                    if own is not None and own != most:
                        await self._groups.put(child, card, None)
                    continue
                if own is None:
                    wanted = most if amount is None else min(most, amount)
                elif before.hard_bytes is not None and before.hard_bytes != most:
                    wanted = min(most, own + most - before.hard_bytes)
                else:
                    wanted = min(most, own)
                if own != wanted:
                    await self._groups.put(child, card, max(wanted, found.used_bytes))
            except DeviceError as error:
                # The container has ended meanwhile, or has just allocated more: the next poll sets it.
                logger.debug("a container's group keeps its limit %s", fields(group=child, reason=error))

    async def close_others(self, sick: Collection[str], *, is_thorough: bool) -> None:
        """Leave to the pod nothing of the cards that it does not hold, which a variable of its own may show to it.

        A card of ``sick``, which may answer no calls, is closed once it is well; one that keeps no limits stays open.
        ``is_thorough``: cards that this process has closed are looked at again.

        Raises:
            DeviceError: a card cannot be closed.
        """
        held = {(await self._limiter.find(self._inventory, index)).uuid for index in self._limit.hard}
        for uuid in sorted(self._limiter.cards.keys() - held - set(sick)):
            try:
                for group in self._found:
                    await self._close_card(group, self._limiter.cards[uuid], is_thorough=is_thorough)
            except DeviceError:
                if uuid not in self._limiter.card_problems:
                    raise

    async def _close_card(self, group: Path, card: Card, *, is_thorough: bool) -> None:
        if is_thorough or not self._groups.has_set(group, card):
            await self._groups.keep(group, card, LEAST_BYTES)
        if is_hierarchical(group):
            return
        # A limit of a container's own would count in place of the pod's. The container toolkit sets it at creation.
        for child in child_groups(group):
            is_due = is_thorough or _age_s(child) < HASTY_FOR_S
            if is_due and not is_kept(await self._groups.read(child, card), LEAST_BYTES):
                await self._groups.put(child, card, None)


def _age_s(group: Path) -> float:
    """How long a group has been there, in seconds; 0 if it is gone."""
    try:
        return time.time() - group.stat().st_ctime
    except OSError:
        return 0.0
