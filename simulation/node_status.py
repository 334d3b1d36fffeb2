"""What a kubelet says of its Node: the capacity of what plugins offer, a little after it changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from gcushare_playground.apiserver.patches import merge
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
        kubelet = self._kubelet
        zero = dict.fromkeys((*kubelet.resources, kubelet.world.vendor.count_resource), "0")
        status = {"capacity": zero, "allocatable": zero}
        self._update(lambda doc: merge(doc, {"status": status}))

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
            devices = kubelet.devices
            counts = {resource: devices.capacity(resource) for resource in devices.healthy}
            await kubelet.write(lambda counts=counts: self._update(lambda doc: self._with(doc, counts)))  # type: ignore[misc]

    def _with(self, doc: Doc, counts: dict[str, tuple[int, int]]) -> Doc:
        """A Node with these resources: how many there are, and how many of them are healthy."""
        count = self._kubelet.world.vendor.count_resource
        capacity = {**doc["status"]["capacity"], **{name: str(n) for name, (n, _) in counts.items()}}
        allocatable = {**doc["status"]["allocatable"], **{name: str(n) for name, (_, n) in counts.items()}}
        allocatable[count] = capacity.get(count, "0")
        return {**doc, "status": {**doc["status"], "capacity": capacity, "allocatable": allocatable}}

    def _update(self, change: Callable[[Doc], Doc]) -> None:
        kubelet = self._kubelet
        kubelet.world.store.update("nodes", ("", kubelet.node), change, kubelet.process.name)
