"""Who holds what, as a plugin reads it of its kubelet: podresources, and the checkpoint where that is silent."""

from __future__ import annotations

import asyncio

from gcushare.core.errors import DeviceError, RetryableError
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.wire.kubelet.device_lists import device_ids
from simulation.kubelet import Kubelet


class KubeletRecord:
    """The ``AllocationsReader`` of one node."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet

    async def fetch(self) -> KubeletAllocations:
        """Read podresources, or the checkpoint where it does not answer."""
        kubelet = self._kubelet
        await asyncio.sleep(0.003)
        if not kubelet.is_up or kubelet.is_silent:
            try:
                return await self.fetch_checkpoint()
            except DeviceError as error:
                raise RetryableError(str(error)) from error
        record = KubeletAllocations("podresources")
        memory = kubelet.resources[0]
        names = {stored.uid: stored for stored in kubelet.view.objects.values()}
        for (uid, container, resource), ids in kubelet.devices.held.items():
            stored = names.get(uid)
            if stored is None or container.startswith("init"):
                continue
            if kubelet.shown_at_s.get((uid, container, resource), 0.0) > kubelet.world.loop.now_s:
                continue
            pod = "/".join(stored.key)
            if resource == memory:
                record.add(pod, container, device_ids(sorted(ids)))
            else:
                record.add_whole(pod, container, sorted(ids))
        return record

    async def fetch_checkpoint(self) -> KubeletAllocations:
        """Read the checkpoint, by uid."""
        kubelet = self._kubelet
        await asyncio.sleep(0.001)
        if kubelet.checkpoint is None:
            raise DeviceError("the kubelet's checkpoint is missing")
        record = KubeletAllocations("checkpoint")
        for (uid, container, resource), ids in kubelet.checkpoint.items():
            if resource == kubelet.resources[0]:
                record.add(uid, container, device_ids(sorted(ids)))
            else:
                record.add_whole(uid, container, sorted(ids))
        return record

    async def close(self) -> None:
        """Nothing is held."""
