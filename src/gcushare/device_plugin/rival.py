"""Whether another plugin serves a resource on this node: two would take it from each other again and again.

The kubelet tells nobody who registered what. It leaves two traces: its checkpoint names the ids that it was last told
for each resource, and the Node's allocatable counts those that it can hand out now, which turns 0 when a plugin goes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from gcushare.core.errors import DeviceError
from gcushare.device_plugin.kubelet_record import read_registered
from gcushare.wire.whole_cards import is_whole_card_id

logger = logging.getLogger(__name__)


class RivalWatch:
    """Looks for another plugin that serves the whole-card resource; ``tell`` hears of each new one once.

    ``allocatable``: how many of the resource the Node counts as usable, None while the Node was not seen yet.
    """

    def __init__(
        self, resource: str, checkpoint: Path, allocatable: Callable[[], int | None], tell: Callable[[str], None]
    ) -> None:
        self._resource = resource
        self._checkpoint = checkpoint
        self._allocatable = allocatable
        self._tell = tell
        self._told = ""

    def find(self) -> str:
        """Say who serves the resource, and what to do; "" where nobody seems to."""
        rival = self._look()
        if rival and not self._told:
            self._tell(rival)
        self._told = rival
        return rival

    def _look(self) -> str:
        usable = self._allocatable()
        if usable == 0:
            return ""
        try:
            ids = read_registered(self._checkpoint, self._resource)
        except DeviceError as error:
            # A node without a checkpoint has never had a device plugin.
            logger.debug("no checkpoint to look for other plugins in: %s", error)
            return ""
        foreign = [device_id for device_id in ids if not is_whole_card_id(device_id)]
        if not foreign:
            return ""
        counted = "an unknown number" if usable is None else str(usable)
        return (
            f"another plugin serves {self._resource} on this node: the kubelet was told {len(foreign)} device ids such "
            f"as {min(foreign)[:60]!r} and counts {counted} of them as usable. Whole cards are not offered beside it: "
            "remove that plugin from this node, or run this one with --mode memory"
        )
