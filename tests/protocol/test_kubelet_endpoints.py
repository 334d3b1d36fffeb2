import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.kubelet.endpoints import PluginCallError, PluginEndpoint


@pytest.fixture
async def silent_plugin() -> AsyncIterator[tuple[Path, asyncio.Event]]:
    """A plugin that names its options and never answers a preference; the event says that it was asked."""
    asked = asyncio.Event()

    async def options(_request: bytes, _context: object) -> bytes:
        return pb.DevicePluginOptions(get_preferred_allocation_available=True).SerializeToString()

    async def never(_request: bytes, _context: object) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    unary = grpc.unary_unary_rpc_method_handler
    server = grpc.aio.server()
    handlers = {"GetDevicePluginOptions": unary(options), "GetPreferredAllocation": unary(never)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(services.DEVICE_PLUGIN_SERVICE, handlers),))
    with tempfile.TemporaryDirectory(prefix="silent-") as folder:
        socket = Path(folder) / "plugin.sock"
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        yield socket, asked
        await server.stop(None)


async def test_a_call_under_which_its_endpoint_is_replaced_fails_and_does_not_end_the_caller(
    silent_plugin: tuple[Path, asyncio.Event],
) -> None:
    socket, asked = silent_plugin
    endpoint = PluginEndpoint("enflame.com/gcu-memory", socket)
    await endpoint.connect()
    call = asyncio.create_task(endpoint.get_preferred(["000"], [], 1))
    await asked.wait()
    await endpoint.close()
    with pytest.raises(PluginCallError, match="the client connection is closing"):
        await call


async def test_a_caller_that_is_cancelled_itself_stays_cancelled(silent_plugin: tuple[Path, asyncio.Event]) -> None:
    socket, asked = silent_plugin
    endpoint = PluginEndpoint("enflame.com/gcu-memory", socket)
    await endpoint.connect()
    call = asyncio.create_task(endpoint.get_preferred(["000"], [], 1))
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await endpoint.close()
