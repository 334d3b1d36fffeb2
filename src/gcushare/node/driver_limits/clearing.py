"""Take back the limits of running pods, once an admin has given them up: the driver keeps them otherwise."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.ports import LimitSource
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields
from gcushare.core.wording import counted
from gcushare.node.api_server import Announcer
from gcushare.node.driver_limits.control_groups import child_groups, find_pod_groups

logger = logging.getLogger(__name__)

LOOK_S = 30.0
"""Between two looks: a plugin of before may run for a moment during an update, and a driver may be away."""


async def clear_limits(source: LimitSource, root: Path, announcer: Announcer) -> None:
    """Take back every pod's limits until cancelled; an admin's own limit of all pods stays."""
    try:
        while True:
            try:
                await _clear(source, root, announcer)
            except DeviceError as error:
                if not (isinstance(error, LibraryCallError) and error.failure.is_unsupported):  # it keeps no limits
                    logger.warning("memory limits are not taken back; will retry %s", fields(reason=error))
            await asyncio.sleep(LOOK_S)
    finally:
        await source.close()


async def _clear(source: LimitSource, root: Path, announcer: Announcer) -> None:
    groups = await asyncio.to_thread(find_pod_groups, root)
    cards, cleared = (await source.list_cards()).cards, 0
    for group in (each for found in groups.pods.values() for each in found):
        for each in (group, *child_groups(group)):
            for card in cards:
                memory = await source.group_memory(card, str(each))
                if memory is not None and memory.hard_bytes is not None:
                    await source.limit_group(card, str(each), None)
                    cleared += each == group
    if cleared:
        words = f"{counted(cleared, 'memory limit')} of pods were taken back"
        announcer.about_node("MemoryLimitsCleared", words, warning=False)
        logger.info("%s", words)
