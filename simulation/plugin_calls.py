"""A kubelet's calls to a plugin: each takes its time both ways, and fails where the plugin is killed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.kubelet.allocation import PluginCallError
from simulation.sockets import CallFailed, PluginSocket
from simulation.world import World

_WAY_S = 0.001


@dataclass(frozen=True)
class SimulatedPlugin:
    """A registered plugin, as the device manager calls it."""

    world: World
    socket: PluginSocket
    options = pb.DevicePluginOptions(get_preferred_allocation_available=True)

    async def get_preferred(self, available: Collection[str], must_include: Collection[str], size: int) -> set[str]:
        asked = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=sorted(available), must_include_deviceIDs=sorted(must_include), allocation_size=size
        )
        request = pb.PreferredAllocationRequest(container_requests=[asked]).SerializeToString()
        body = await _call_plugin(self.world, self.socket, "GetPreferredAllocation", request)
        return set(pb.PreferredAllocationResponse.FromString(body).container_responses[0].deviceIDs)

    async def allocate(self, ids: Collection[str]) -> bytes:
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=sorted(ids))])
        body = await _call_plugin(self.world, self.socket, "Allocate", request.SerializeToString())
        return pb.AllocateResponse.FromString(body).container_responses[0].SerializeToString()

    async def pre_start(self, ids: Collection[str]) -> None:
        """Have the plugin prepare a container's start."""
        request = pb.PreStartContainerRequest(devices_ids=sorted(ids)).SerializeToString()
        await _call_plugin(self.world, self.socket, "PreStartContainer", request)


async def _call_plugin(world: World, socket: PluginSocket, method: str, body: bytes) -> bytes:
    loop = world.loop
    answer: asyncio.Future[bytes] = loop.create_future()

    def fail(words: str) -> None:
        if not answer.done():
            answer.set_exception(PluginCallError(words))
            answer.exception()  # Seen: the kubelet that called may have been killed meanwhile.

    def lose() -> None:
        fail("rpc error: code = Unavailable desc = connection lost")

    def arrive() -> None:
        if not socket.answers:
            lose()
        else:
            call = loop.create_task(serve(), context=socket.process.context)
            socket.calls.hold(call)

    def settle(result: bytes) -> None:
        if not answer.done():
            answer.set_result(result)

    async def serve() -> None:
        try:
            result = await socket.call(method, body)
        except CallFailed as error:
            loop.call_world(_WAY_S, fail, str(error))
        except asyncio.CancelledError:
            loop.call_world(_WAY_S, fail, "rpc error: code = Unavailable desc = the server ends")
            raise
        else:
            loop.call_world(_WAY_S, settle, result)

    number = world.next_number()
    socket.process.on_end[number] = lose
    loop.call_world(_WAY_S, arrive)
    try:
        return await answer
    finally:
        socket.process.on_end.pop(number, None)
