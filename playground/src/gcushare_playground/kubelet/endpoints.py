"""One plugin as the kubelet calls it: dialled back on its socket, with the kubelet's receive limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.kubelet.allocation import PluginCallError

logger = logging.getLogger(__name__)

DIAL_TIMEOUT_S = 10.0
"""How long the kubelet waits for a plugin's socket before it refuses the registration."""
PRE_START_TIMEOUT_S = 30.0
"""The kubelet's deadline for PreStartContainer; its other calls to a plugin have none."""

_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.default_authority", "localhost"),
    # A plugin that starts again listens on the same path: its new channel must not inherit the old one's back-off.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
)


_Answer = TypeVar("_Answer", covariant=True)


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


class _Parser(Protocol[_Answer]):
    def __call__(self, raw: bytes, /) -> _Answer: ...


class PluginEndpoint:
    """One registered plugin's socket. ``is_stopped`` is set for good once the kubelet considers the plugin gone."""

    def __init__(
        self,
        resource: str,
        socket_path: Path | None,
        message_limit_bytes: int = services.KUBELET_RECEIVE_LIMIT_BYTES,
    ) -> None:
        self.resource = resource
        self.socket_path = socket_path
        self._message_limit_bytes = message_limit_bytes
        self.options = pb.DevicePluginOptions()
        self.is_stopped = False
        self._channel: grpc.aio.Channel | None = None

    @classmethod
    def stopped(cls, resource: str) -> PluginEndpoint:
        """Return the stand-in for a plugin that a checkpoint names and that has not registered again yet."""
        endpoint = cls(resource, None)
        endpoint.is_stopped = True
        return endpoint

    async def connect(self) -> None:
        """Dial the plugin and ask for its options.

        Raises:
            PluginCallError: no answer within the kubelet's patience, or the plugin refused to name its options.
        """
        limit = ("grpc.max_receive_message_length", self._message_limit_bytes)
        self._channel = grpc.aio.insecure_channel(f"unix:{self.socket_path}", options=(limit, *_CHANNEL_OPTIONS))
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                await self._channel.channel_ready()
            self.options = await self._call(
                services.GET_DEVICE_PLUGIN_OPTIONS, pb.Empty(), pb.DevicePluginOptions.FromString
            )
        except TimeoutError as error:
            await self.close()
            raise PluginCallError("failed to dial device plugin: context deadline exceeded") from error

    async def list_and_watch(self) -> AsyncIterator[pb.ListAndWatchResponse]:
        """Yield the plugin's lists until the stream ends.

        Raises:
            PluginCallError: the stream broke; a message above the receive limit is one way.
        """
        call = self._open_channel().unary_stream(
            services.LIST_AND_WATCH,
            request_serializer=pb.Empty.SerializeToString,
            response_deserializer=pb.ListAndWatchResponse.FromString,
        )(pb.Empty())
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            raise PluginCallError(describe_status(error)) from error
        finally:
            call.cancel()

    async def get_preferred(self, available: Collection[str], must_include: Collection[str], size: int) -> set[str]:
        """Ask which of the available ids the plugin would rather see used.

        Raises:
            PluginCallError: the plugin refused or is gone.
        """
        request = pb.PreferredAllocationRequest(
            container_requests=[
                pb.ContainerPreferredAllocationRequest(
                    available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
                )
            ]
        )
        answer: pb.PreferredAllocationResponse = await self._call(
            services.GET_PREFERRED_ALLOCATION, request, pb.PreferredAllocationResponse.FromString
        )
        return set(answer.container_responses[0].deviceIDs) if answer.container_responses else set()

    async def allocate(self, ids: Collection[str]) -> bytes:
        """Have the plugin grant exactly these ids to one container.

        Raises:
            PluginCallError: the plugin refused, answered for no container, or is gone.
        """
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        answer: pb.AllocateResponse = await self._call(services.ALLOCATE, request, pb.AllocateResponse.FromString)
        if not answer.container_responses:
            raise PluginCallError("no containers return in allocation response")
        return answer.container_responses[0].SerializeToString()

    async def pre_start(self, ids: Collection[str]) -> None:
        """Tell the plugin that a container with these ids is about to start.

        Raises:
            PluginCallError: the plugin refused, took too long, or is gone.
        """
        request = pb.PreStartContainerRequest(devices_ids=ids)
        await self._call(
            services.PRE_START_CONTAINER,
            request,
            pb.PreStartContainerResponse.FromString,
            timeout_s=PRE_START_TIMEOUT_S,
        )

    async def close(self) -> None:
        """Close the connection; may be called again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _call(
        self, method: str, request: _Message, parse: _Parser[_Answer], *, timeout_s: float | None = None
    ) -> _Answer:
        if self.is_stopped:
            raise PluginCallError(f"endpoint {self.resource} has been stopped")
        serialize: Callable[[_Message], bytes] = type(request).SerializeToString
        call = self._open_channel().unary_unary(method, request_serializer=serialize, response_deserializer=parse)
        try:
            answer: _Answer = await call(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise PluginCallError(describe_status(error)) from error
        except grpc.aio.UsageError as error:  # the channel was closed under the call: the endpoint was replaced
            raise PluginCallError(f"endpoint {self.resource} has been stopped") from error
        except asyncio.CancelledError as error:
            if _is_own_task_cancelled():
                raise
            # A channel that closes cancels its calls; taken for our own end, it would end admission for good.
            raise PluginCallError("rpc error: code = Canceled desc = grpc: the client connection is closing") from error
        return answer

    def _open_channel(self) -> grpc.aio.Channel:
        if self._channel is None:
            raise PluginCallError(f"endpoint {self.resource} has been stopped")
        return self._channel


def _is_own_task_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def describe_status(error: grpc.aio.AioRpcError) -> str:
    """Word a failed call as a Go program prints it."""
    # Go's names are these without the underscores, but for one letter.
    name = error.code().name.title().replace("_", "").replace("Cancelled", "Canceled")
    return f"rpc error: code = {name} desc = {error.details()}"


async def serve_method(socket: Path, method: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.aio.Server:
    """Answer one method, by its full name, on a socket of the kubelet's."""
    # A real kubelet bounds what its own clients receive, not what it sends.
    server = grpc.aio.server(options=(("grpc.max_send_message_length", -1),))
    service, name = method.removeprefix("/").split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler}),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    return server
