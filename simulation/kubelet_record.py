"""Who holds what, as a plugin reads it of its kubelet: podresources, and the checkpoint where that is silent."""

from __future__ import annotations

import asyncio

from gcushare.core.errors import DeviceError, RetryableError
from gcushare.device_plugin.kubelet.checkpoint import MissingCheckpointError
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.wire.kubelet.plugin_messages import device_ids
from gcushare_playground.kubelet.checkpoint import PodDevices
from simulation.kubelet import Kubelet


class KubeletRecord:
    """The ``AllocationsSource`` of one node."""

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
        names = {stored.uid: stored for stored in kubelet.view.objects.values()}
        for entry in kubelet.devices.entries():
            stored = names.get(entry.pod_uid)
            if stored is None or entry.container.startswith("init"):
                continue
            if kubelet.shown_at_s.get((entry.pod_uid, entry.container), 0.0) <= kubelet.world.loop.now_s:
                self._add(record, "/".join(stored.key), entry)
        return record

    async def fetch_checkpoint(self) -> KubeletAllocations:
        """Read the checkpoint, by uid."""
        kubelet = self._kubelet
        await asyncio.sleep(0.001)
        if kubelet.checkpoint is None:
            raise MissingCheckpointError("the kubelet's checkpoint is missing")
        record = KubeletAllocations("checkpoint")
        for entry in kubelet.checkpoint.entries or ():
            self._add(record, entry.pod_uid, entry)
        return record

    def _add(self, record: KubeletAllocations, pod: str, entry: PodDevices) -> None:
        if entry.resource == self._kubelet.resources[0]:
            record.add(pod, entry.container, device_ids(sorted(entry.ids)), entry.answer)
        else:
            record.add_whole(pod, entry.container, sorted(entry.ids), entry.answer)
