"""Whether another plugin serves a resource on this node: two would take it from each other again and again.

The kubelet does not show which plugin registered what. It leaves two traces. Its checkpoint names the healthy ids that
it was last sent for each resource; a plugin whose devices are all unhealthy is there with none, and one that has ended
stays until five minutes later. The Node's capacity counts all that a plugin listed, its allocatable the healthy ones;
when a plugin goes, allocatable turns 0 and the checkpoint stays as it is until something else is written there.

Source: kubelet 1.20 to 1.36, ``pkg/kubelet/cm/devicemanager/manager.go``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Inventory
from gcushare.core.errors import DeviceError
from gcushare.device_plugin.kubelet.checkpoint import read_registered
from gcushare.device_plugin.node.publisher import ResourceCounts
from gcushare.wire.kubelet.device_ids import is_device_id, is_whole_card_id

logger = logging.getLogger(__name__)

_ADVICE = {
    SERVES_WHOLE: "Whole cards are not offered next to it: remove that plugin from this node, or run this one with "
    "--mode memory",
    SERVES_MEMORY: "Memory is not offered next to it: remove that plugin from this node",
}


class NodeCounts(Protocol):
    """What the Node says: a ``Publisher``. ``former`` is what a plugin of ours before this one had published."""

    former: Inventory | None

    def counts(self, resource: str) -> ResourceCounts | None: ...


class ConflictingPluginWatch:
    """Searches for another plugin of ``resource``, which has ids of memory or of whole cards; ``report`` gets it once.

    Whole cards that we serve have other plugins on many nodes, so there every trace counts. Of a resource that only we
    use, or that we do not serve, only a foreign id that the kubelet can still hand out is a trace.
    """

    def __init__(
        self,
        resource: str,
        part: str,
        checkpoint: Path,
        node: NodeCounts,
        report: Callable[[str], None],
        *,
        is_served: bool = True,
    ) -> None:
        self._resource = resource
        self._is_own_id = is_whole_card_id if part == SERVES_WHOLE else is_device_id
        self._is_strict = is_served and part == SERVES_WHOLE
        self._advice = _ADVICE[part] if is_served else (
            "It hands out the same cards: remove it from this node, or set --other-systems allow if the cards are "
            "divided between both"
        )  # fmt: skip
        self._checkpoint = checkpoint
        self._node = node
        self._report = report
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
            self._report(conflicting)
        self._reported, self._is_ours = conflicting, not conflicting
        return conflicting

    def _read(self) -> tuple[int, list[str]] | None:
        """How many ids the kubelet was last sent, and which of them are not ours; None if it knows no plugin."""
        ids = read_registered(self._checkpoint, self._resource)
        return None if ids is None else (len(ids), [each for each in ids if not self._is_own_id(each)])

    def _evaluate(self, sent: int, foreign: list[str]) -> str:
        """Go by what the kubelet was last sent; without any id, by whose the resource was before."""
        counts = self._node.counts(self._resource)
        if foreign:
            is_gone = counts is not None and counts.allocatable == 0 and (counts.capacity > 0 or not self._is_strict)
            usable = "an unknown number" if counts is None else str(counts.allocatable)
            return "" if is_gone else self._text(
                f"the kubelet was sent {len(foreign)} device ids such as {min(foreign)[:60]!r} and counts {usable} of "
                "them as usable"
            )  # fmt: skip
        if sent or not self._is_strict or self._was_ours():
            return ""
        if self._reported or (counts is not None and counts.capacity > 0):
            counted = "some" if counts is None else str(counts.capacity)
            return self._text(f"the kubelet was sent {counted} devices that are all unhealthy or lost, and not by us")
        return ""

    def _was_ours(self) -> bool:
        former = self._node.former
        return not self._reported and (self._is_ours or (former is not None and SERVES_WHOLE in former.modes))

    def _text(self, evidence: str) -> str:
        return f"another plugin serves {self._resource} on this node: {evidence}. {self._advice}"
