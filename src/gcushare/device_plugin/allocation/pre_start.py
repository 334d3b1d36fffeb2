"""Sets the driver's limits of a pod before one of its containers is created, by the ids that the kubelet gave to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gcushare.core.assignments import PodRef
from gcushare.core.cards import Inventory
from gcushare.core.errors import RetryableError
from gcushare.device_plugin.pods.pod import PodEntry
from gcushare.device_plugin.pods.reconciler import AllocationReconciler, AllocationsSource
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.driver_limits.pod_amounts import PodLimit
from gcushare.node.driver_limits.pods import DriverLimits
from gcushare.node.over_use.watch import entitled_bytes
from gcushare.wire.kubelet.plugin_messages import DeviceIds

_LOOKS = 6
_BETWEEN_LOOKS_S = 0.25


@dataclass(eq=False)
class PreStart:
    """Called with the ids of a container of shared memory. The call names no pod, but the checkpoint does: by then the
    kubelet has admitted the pod.
    """

    limits: DriverLimits
    store: PodStore
    reconciler: AllocationReconciler
    source: AllocationsSource
    inventory: Callable[[], Inventory | None]

    async def __call__(self, ids: DeviceIds) -> None:
        """Set the limits.

        Raises:
            RetryableError: the pod, or what it holds, is not known yet; the kubelet calls again.
            DeviceError: a limit cannot be set.
        """
        inventory, counts = self.inventory(), ids.count_by_card()
        if inventory is None or not counts:
            raise RetryableError("the cards of this container are not known yet; the kubelet tries again")
        amounts = {index: inventory.unit.bytes_of(units) for index, units in counts.items()}
        uid, held = await self._find_holder(ids)
        for _ in range(_LOOKS):
            entry = self.store.entries.get(uid)
            if entry is not None and _covers(entry, inventory, amounts):
                await self.limits.ensure(entry.ref.uid, amounts)
                return
            await asyncio.sleep(_BETWEEN_LOOKS_S)
            await self.reconciler.check()
        # A pod that the API server has not shown, such as a static pod while it is away.
        hard = {index: inventory.unit.bytes_of(units) for index, units in held.items()}
        await self.limits.ensure_limit(PodLimit(PodRef(uid, "", uid), uid, hard), amounts)

    async def _find_holder(self, ids: DeviceIds) -> tuple[str, dict[int, int]]:
        """The uid of the pod that holds ids, with its units by card; the checkpoint shows init containers too."""
        holder = (await self.source.fetch_checkpoint()).find_holder(ids)
        if holder is None:
            raise RetryableError(
                f"the kubelet shows no pod that holds {ids.first(1)} and the other {len(ids) - 1} ids of this container"
            )
        return holder[0], dict(holder[1])


def _covers(entry: PodEntry, inventory: Inventory, amounts: dict[int, int]) -> bool:
    """Whether the store knows already that a pod has all that its container was given."""
    granted = entitled_bytes(entry, inventory)
    return all(granted.get(index, 0) >= size for index, size in amounts.items())
