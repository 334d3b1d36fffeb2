"""What a kubelet says of its Node: the capacity of what plugins offer, a little after it changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gcushare_playground.apiserver.patches import merge
from gcushare_playground.kubelet.books import ResourceCount
from gcushare_playground.kubelet.statuses import resource_status, zeroed_extended_resources
from simulation.store import Doc

if TYPE_CHECKING:
    from simulation.kubelet import Kubelet

_LONGEST_S = 60.0
"""Between two reports where nothing is due."""


class NodeStatus:
    """The status of one node, for the life of its kubelet. Set ``is_due`` where it may have changed."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self.is_due = asyncio.Event()

    def zero(self) -> None:
        """Say that there is nothing, as a kubelet does when it starts."""
        self._update(lambda doc: merge(doc, {"status": zeroed_extended_resources(doc)}))

    async def report(self) -> None:
        """Say what there is, again and again."""
        kubelet = self._kubelet
        while True:
            try:
                async with asyncio.timeout(_LONGEST_S):
                    await self.is_due.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(0.1 + 2.0 * kubelet.rng.random())
            self.is_due.clear()
            counts = kubelet.devices.counts()
            await kubelet.write(partial(self._update, partial(_with, counts=counts)))

    def _update(self, change: Callable[[Doc], Doc]) -> None:
        kubelet = self._kubelet
        kubelet.world.store.update("nodes", ("", kubelet.node), change, kubelet.process.name)


def _with(doc: Doc, counts: dict[str, ResourceCount]) -> Doc:
    """A Node with these resources."""
    changed: Doc = merge(doc, {"status": resource_status(doc, {}, counts)})
    return changed
