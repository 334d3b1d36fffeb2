"""A tiny device plugin over real gRPC, for tests of the kubelet double: does as asked and remembers its calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio

from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services

Prefer = Callable[[pb.ContainerPreferredAllocationRequest], list[str]]
Grant = Callable[[list[str]], pb.ContainerAllocateResponse]


@dataclass(frozen=True)
class PreferredCall:
    available: frozenset[str]
    must_include: frozenset[str]
    size: int


@dataclass
class Calls:
    """What the kubelet asked, in order of arrival per method."""

    preferred: list[PreferredCall] = field(default_factory=list)
    allocated: list[frozenset[str]] = field(default_factory=list)
    pre_started: list[frozenset[str]] = field(default_factory=list)


class CallFailure(Exception):
    """Raised by a test's ``prefer`` or ``grant`` to answer the call with this status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


def devices(ids: Iterable[str], *, sick: Iterable[str] = (), health: str = services.UNHEALTHY) -> bytes:
    """Encode a list of devices; the sick ones carry the other health."""
    bad = set(sick)
    return pb.ListAndWatchResponse(
        devices=[pb.Device(ID=id_, health=health if id_ in bad else services.HEALTHY) for id_ in ids]
    ).SerializeToString()


class ReferencePlugin:
    """Serves the device plugin API on its own socket in the kubelet's plugin directory."""

    def __init__(self, directory: Path, resource: str, listing: bytes, *, socket: str = "reference.sock") -> None:
        self.options = pb.DevicePluginOptions(get_preferred_allocation_available=True)
        self.calls = Calls()
        self.prefer: Prefer = lambda request: sorted(request.available_deviceIDs)[: request.allocation_size]
        self.grant: Grant = lambda ids: pb.ContainerAllocateResponse(envs={"GRANTED": ",".join(sorted(ids))})
        self._directory = directory
        self._resource = resource
        self._listing = listing
        self._socket = socket
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.serve()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def serve(self) -> None:
        server = grpc.aio.server(options=(("grpc.max_receive_message_length", -1),))
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", self._handlers()),)
        )
        server.add_insecure_port(f"unix:{self._directory / self._socket}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=None)

    async def register(self, *, version: str = "v1beta1", resource: str | None = None) -> None:
        """Register with the kubelet whose socket lies in the directory."""
        request = pb.RegisterRequest(
            version=version, endpoint=self._socket, resource_name=resource or self._resource, options=self.options
        )
        address, options = f"unix:{self._directory / 'kubelet.sock'}", (("grpc.use_local_subchannel_pool", 1),)
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            await channel.unary_unary(services.REGISTER)(request.SerializeToString(), timeout=15)

    async def publish(self, listing: bytes) -> None:
        """Send this list to every open stream."""
        async with self._changed:
            self._listing = listing
            self._changed.notify_all()

    def _handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        unary = grpc.unary_unary_rpc_method_handler
        return {
            "GetDevicePluginOptions": unary(self._get_options, pb.Empty.FromString, _serialize),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list_and_watch, pb.Empty.FromString, None),
            "GetPreferredAllocation": unary(self._get_preferred, pb.PreferredAllocationRequest.FromString, _serialize),
            "Allocate": unary(self._allocate, pb.AllocateRequest.FromString, _serialize),
            "PreStartContainer": unary(self._pre_start, pb.PreStartContainerRequest.FromString, _serialize),
        }

    async def _get_options(self, request: pb.Empty, context: grpc.aio.ServicerContext) -> pb.DevicePluginOptions:
        return self.options

    async def _list_and_watch(self, request: pb.Empty, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        sent: bytes | None = None
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda known=sent: self._listing is not known)  # type: ignore[misc] # mypy cannot infer a lambda's default
                sent = self._listing
            yield sent

    async def _get_preferred(
        self, request: pb.PreferredAllocationRequest, context: grpc.aio.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        (container,) = request.container_requests
        available, needed = frozenset(container.available_deviceIDs), frozenset(container.must_include_deviceIDs)
        self.calls.preferred.append(PreferredCall(available, needed, container.allocation_size))
        ids = await _answer(context, lambda: self.prefer(container))
        preferred = pb.ContainerPreferredAllocationResponse(deviceIDs=ids)
        return pb.PreferredAllocationResponse(container_responses=[preferred])

    async def _allocate(self, request: pb.AllocateRequest, context: grpc.aio.ServicerContext) -> pb.AllocateResponse:
        (container,) = request.container_requests
        self.calls.allocated.append(frozenset(container.devices_ids))
        granted = await _answer(context, lambda: self.grant(list(container.devices_ids)))
        return pb.AllocateResponse(container_responses=[granted])

    async def _pre_start(
        self, request: pb.PreStartContainerRequest, context: grpc.aio.ServicerContext
    ) -> pb.PreStartContainerResponse:
        self.calls.pre_started.append(frozenset(request.devices_ids))
        return pb.PreStartContainerResponse()


async def _answer(context: grpc.aio.ServicerContext, decide: Callable[[], Any]) -> Any:
    try:
        return decide()
    except CallFailure as failure:
        await context.abort(failure.code, failure.details)


def _serialize(message: Any) -> bytes:
    raw: bytes = message.SerializeToString()
    return raw
