"""The calls that the plugin itself makes in the kubelet's directory: its registration, and one to its own socket."""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio

from gcushare.core.errors import RetryableError
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services

REGISTER_TIMEOUT_S = 5.0
PROBE_TIMEOUT_S = 0.5
"""Below the time that a health check may take; a socket that nobody serves answers at once."""

_OPTIONS = (
    # A new server may listen on the same path: no connection, and no back-off, of an earlier call is used again.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


async def register_plugin(kubelet_socket: Path, resource: str, socket_name: str) -> None:
    """Register a resource with the kubelet, which dials the plugin's socket back before it answers.

    Raises:
        RetryableError: it refused, or does not answer.
    """
    request = pb.RegisterRequest(
        version=services.DEVICE_PLUGIN_VERSION,
        endpoint=socket_name,
        resource_name=resource,
        options=pb.DevicePluginOptions(get_preferred_allocation_available=True),
    )
    try:
        async with grpc.aio.insecure_channel(f"unix:{kubelet_socket}", options=_OPTIONS) as channel:
            register = channel.unary_unary(services.REGISTER)
            await register(request.SerializeToString(), timeout=REGISTER_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        raise RetryableError(f"the kubelet refused the registration of {resource}: {error.details()}") from error


async def probe_plugin(socket: Path, *, timeout_s: float = PROBE_TIMEOUT_S) -> str | None:
    """Call a plugin's socket as the kubelet does; None where it answers, else why not."""
    try:
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            await channel.unary_unary(services.GET_DEVICE_PLUGIN_OPTIONS)(b"", timeout=timeout_s)
    except grpc.aio.AioRpcError as error:
        return f"{socket} does not answer: {error.code().name} {error.details()}"
    return None
