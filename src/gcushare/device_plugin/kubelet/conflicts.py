"""What is in the way of registering a resource: another plugin of it, or another system with the same cards.

Two plugins of one resource would take it from each other again and again, and the kubelet does not
show which plugin registered what. It leaves two traces. Its checkpoint names the healthy ids that it was last sent for
each resource; a plugin whose devices are all unhealthy is there with none, and one that has ended stays until five
minutes later. The Node's capacity counts all that a plugin listed, its allocatable the healthy ones; when a plugin
goes, allocatable turns 0 and the checkpoint stays as it is until something else is written there.

Source: kubelet 1.20 to 1.36, ``pkg/kubelet/cm/devicemanager/manager.go``.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Inventory
from gcushare.core.errors import DeviceError
from gcushare.core.wording import counted
from gcushare.device_plugin.kubelet.checkpoint import read_registered
from gcushare.device_plugin.node.parts import Parts
from gcushare.device_plugin.node.publisher import ResourceCounts
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.node.api_server import SliceDrivers
from gcushare.node.node_settings import OtherSystems
from gcushare.vendors.neighbours import describe_others, vendor_plugin
from gcushare.wire.kubelet.device_ids import is_device_id, is_whole_card_id

logger = logging.getLogger(__name__)

_ADVICE = {
    SERVES_WHOLE: "Whole cards are not offered next to it: remove that plugin from this node, or divide the cards and "
    "run this one with --mode memory --other-systems allow",
    SERVES_MEMORY: "Memory is not offered next to it: remove that plugin from this node",
}


class NodeCounts(Protocol):
    """What the Node says: a ``Publisher``. ``former`` is what a plugin of ours before this one had published."""

    former: Inventory | None

    def counts(self, resource: str) -> ResourceCounts | None: ...


@dataclass(eq=False)
class ConflictingPluginWatch:
    """Searches for another plugin of ``resource``, which has ids of memory or of whole cards; ``report`` gets it once.

    Whole cards that we serve have other plugins on many nodes, so there every trace counts. Of a resource that only we
    use, or that we do not serve, only a foreign id that the kubelet can still hand out is a trace.
    """

    resource: str
    part: str
    checkpoint: Path
    node: NodeCounts
    report: Callable[[str], None]
    _: KW_ONLY
    is_served: bool = True

    def __post_init__(self) -> None:
        self._is_own_id = is_whole_card_id if self.part == SERVES_WHOLE else is_device_id
        self._is_strict = self.is_served and self.part == SERVES_WHOLE
        other = vendor_plugin(self.resource)
        self._advice = _ADVICE[self.part] if self.is_served else (
            f"It hands out the same cards. Keep {other.name} off this node ({other.removal}), or set --other-systems "
            "allow if the cards are divided between both"
        )  # fmt: skip
        self._reported = ""
        self._is_ours = False
        """No other plugin served it at the last check, so what the kubelet was sent since comes from here."""

    async def find(self) -> str:
        """Say which other plugin serves the resource, and what to do; "" if none seems to."""
        try:
            ids = await asyncio.to_thread(self._read)
        except DeviceError as error:
            # A node without a checkpoint has never had a device plugin.
            logger.debug("no checkpoint to search for other plugins: %s", error)
            ids = None
        conflicting = self._evaluate(*ids) if ids is not None else ""
        if conflicting and not self._reported:
            self.report(conflicting)
        self._reported, self._is_ours = conflicting, not conflicting
        return conflicting

    def _read(self) -> tuple[int, list[str]] | None:
        """How many ids the kubelet was last sent, and which of them are not ours; None if it knows no plugin."""
        ids = read_registered(self.checkpoint, self.resource)
        return None if ids is None else (len(ids), [each for each in ids if not self._is_own_id(each)])

    def _evaluate(self, sent: int, foreign: list[str]) -> str:
        """Go by what the kubelet was last sent; without any id, by whose the resource was before."""
        counts = self.node.counts(self.resource)
        if foreign:
            is_gone = counts is not None and counts.allocatable == 0 and (counts.capacity > 0 or not self._is_strict)
            usable = "an unknown number" if counts is None else str(counts.allocatable)
            return "" if is_gone else self._text(
                f"the kubelet was sent {counted(len(foreign), 'device id')} such as {min(foreign)[:60]!r} and "
                f"counts {usable} of them as usable"
            )  # fmt: skip
        former = self.node.former
        was_ours = self._is_ours or (former is not None and SERVES_WHOLE in former.modes)
        if sent or not self._is_strict or (was_ours and not self._reported):
            return ""
        if self._reported or (counts is not None and counts.capacity > 0):
            sent_then = "devices" if counts is None else counted(counts.capacity, "device")
            return self._text(f"the kubelet was sent {sent_then}, all unhealthy or lost, and not by us")
        return ""

    def _text(self, evidence: str) -> str:
        return f"another plugin serves {self.resource} on this node: {evidence}. {self._advice}"


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
            checkpoint=settings.kubelet.checkpoint,
            node=parts.publisher,
            report=partial(self._announce, "SecondPluginServes"),
        )
        whole = vendor.whole_card_resource
        self._watches = {
            part: [watch(whole if part == SERVES_WHOLE else vendor.memory_resource, part)] for part in served
        }
        if self._is_refusing and SERVES_MEMORY in served:  # what it gives whole must not be shared here
            self._watches[SERVES_MEMORY].append(watch(whole, SERVES_WHOLE, is_served=False))

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
