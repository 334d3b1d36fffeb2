"""A burst's plugin as the kubelet's device manager calls it."""

from __future__ import annotations

from collections.abc import Collection

from gcushare.device_plugin.allocation.allocator import CardAllocator
from gcushare.wire.kubelet.plugin_messages import PreferredRequest, device_ids
from gcushare.wire.protos import deviceplugin_pb2 as pb


class RuleBroken(Exception):
    """A pod that runs has other cards than its rules allow, or a right pod was refused."""


class BurstPlugin:
    """One resource's plugin. As with some kubelets it is not asked where there is no choice."""

    options = pb.DevicePluginOptions(get_preferred_allocation_available=True)

    def __init__(self, allocator: CardAllocator) -> None:
        self._allocator = allocator

    async def get_preferred(self, available: Collection[str], must_include: Collection[str], size: int) -> set[str]:
        if size == len(available):
            return set()
        request = PreferredRequest(device_ids(sorted(available)), device_ids(sorted(must_include)), size)
        answer = await self._allocator.prefer(request)
        preferred = {entry[2:].decode() for entry in answer}
        if len(preferred) != size or not set(must_include) <= preferred <= set(available):
            raise RuleBroken(f"preferred are {sorted(preferred)}: {size}, {sorted(must_include)} among them")
        return preferred

    async def allocate(self, ids: Collection[str]) -> bytes:
        answer = await self._allocator.allocate(device_ids(sorted(ids)))
        return answer.SerializeToString()

    async def pre_start(self, ids: Collection[str]) -> None:
        """Never called: the options do not ask for it."""
