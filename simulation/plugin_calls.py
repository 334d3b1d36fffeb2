"""Calls of a kubelet to a plugin: each takes its time both ways, and fails where the plugin is killed meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from simulation.sockets import CallFailed, PluginSocket

if TYPE_CHECKING:
    from simulation.world import World

_WAY_S = 0.001


async def call_plugin(world: World, socket: PluginSocket, method: str, body: bytes) -> bytes:
    """Call a plugin that serves a socket; raises CallFailed."""
    loop = world.loop
    answer: asyncio.Future[bytes] = loop.create_future()

    def fail(failure: CallFailed) -> None:
        if not answer.done():
            answer.set_exception(failure)
            answer.exception()  # Seen: the kubelet that called may have been killed meanwhile.

    def lose() -> None:
        fail(CallFailed("rpc error: code = Unavailable desc = connection lost"))

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
            loop.call_world(_WAY_S, fail, error)
        except asyncio.CancelledError:
            loop.call_world(_WAY_S, fail, CallFailed("rpc error: code = Unavailable desc = the server ends"))
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
