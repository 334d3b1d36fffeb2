"""Why a resource must not be registered here: another plugin serves it, or another system hands out the same cards."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial

from gcushare.core.cards import SERVES_WHOLE
from gcushare.device_plugin.kubelet.checkpoint import CHECKPOINT_NAME
from gcushare.device_plugin.kubelet.conflicting_plugin import ConflictingPluginWatch
from gcushare.device_plugin.node.parts import Parts
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.node.choices import OtherSystems
from gcushare.node.other_systems import SliceDrivers, describe_others


class ConflictSearch:
    """Searches before each registration of a part of the node's offer: memory or whole cards.

    Another plugin of the same resource is always refused: the kubelet serves one. Systems that hand out the same cards
    under other names are refused unless ``--other-systems allow``.
    """

    def __init__(
        self, settings: PluginSettings, parts: Parts, drivers: SliceDrivers, clock: Callable[[], float]
    ) -> None:
        vendor, served = settings.cards.vendor, settings.cards.mode.parts
        self._is_refusing = settings.cards.other_systems is OtherSystems.REFUSE
        self._publisher = parts.publisher
        self._drivers = drivers
        self._clock = clock
        self._announce = partial(parts.announcer.about_node, warning=True)
        self._reading = asyncio.Lock()
        self._read_at = -math.inf
        self._others = ""
        watch = partial(
            ConflictingPluginWatch,
            checkpoint=settings.kubelet.device_plugin_dir / CHECKPOINT_NAME,
            node=parts.publisher,
            report=partial(self._announce, "SecondPluginServes"),
        )
        whole = vendor.whole_card_resource
        self._watches = {
            part: [watch(whole if part == SERVES_WHOLE else vendor.memory_resource, part)] for part in served
        }
        if self._is_refusing and SERVES_WHOLE not in served:
            for watches in self._watches.values():
                watches.append(watch(whole, SERVES_WHOLE, is_served=False))

    async def find(self, part: str) -> str:
        """Say what is in the way of a part, and what to do; "" if nothing is."""
        found = [await watch.find() for watch in self._watches[part]]
        if self._is_refusing:
            found.append(await self._find_others())
        return "; ".join(filter(None, found))

    async def _find_others(self) -> str:
        asked_at = self._clock()
        # Memory and whole cards are registered at the same time: one list of ResourceSlices answers both.
        async with self._reading:
            if self._read_at < asked_at:
                others = describe_others(self._publisher.find_neighbours(await self._drivers.read()))
                if others and others != self._others:
                    self._announce("OtherSystemServes", others)
                self._others, self._read_at = others, self._clock()
            return self._others
