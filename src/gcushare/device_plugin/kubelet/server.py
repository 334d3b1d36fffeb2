"""The kubelet's DevicePlugin service over bytes: protocol in, decisions out, errors as gRPC statuses.

Registered as generic handlers without generated stubs, because the two large messages are handled as bytes
(docs/adr/0003-bytes-on-the-hot-path.md).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import NoReturn, Protocol

import grpc

from gcushare.core.errors import DeviceError, GcushareError, Refused, RemoteContractError, RetryableError
from gcushare.device_plugin.allocation.allocator import CardAllocator
from gcushare.device_plugin.kubelet.device_list import DeviceList
from gcushare.node.card_and_pod_metrics import CallObserver
from gcushare.wire.kubelet.plugin_messages import (
    DeviceIds,
    decode_allocate_request,
    decode_preferred_request,
    device_ids,
    encode_preferred_response,
)
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos.services import read_message

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""GetPreferredAllocation carries every free id to us: 1.3 MB for 262,144 units, more for other layouts' longer ids."""

CALLS = ("GetPreferredAllocation", "Allocate", "PreStartContainer")
"""The kubelet's calls that are timed and counted."""

STATUS_OF_ERROR: tuple[tuple[type[GcushareError], grpc.StatusCode], ...] = (
    (Refused, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (RemoteContractError, grpc.StatusCode.INVALID_ARGUMENT),
    (DeviceError, grpc.StatusCode.UNAVAILABLE),
    (RetryableError, grpc.StatusCode.UNAVAILABLE),
    (GcushareError, grpc.StatusCode.INTERNAL),
)
"""The first row that fits decides; the kubelet shows the text on the pod."""


class CallContext(Protocol):
    """The part of grpc.aio's servicer context that is used here."""

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn: ...


@dataclass(eq=False)
class DevicePluginService:
    """One resource's DevicePlugin service.

    ``pre_start`` prepares what a container needs that is about to be created, by its ids; None if there is nothing, and
    the kubelet is asked for no such call.
    """

    table: DeviceList
    allocator: CardAllocator
    _: KW_ONLY
    clock: Callable[[], float]
    observe: CallObserver
    pre_start: Callable[[DeviceIds], Awaitable[None]] | None = None

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler to add to a server."""
        unary = grpc.unary_unary_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            "v1beta1.DevicePlugin",
            {
                "GetDevicePluginOptions": unary(self._options),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list_and_watch),
                "GetPreferredAllocation": unary(self._get_preferred_allocation),
                "Allocate": unary(self._allocate),
                "PreStartContainer": unary(self._pre_start_container),
            },
        )

    async def _options(self, request: bytes, context: CallContext) -> bytes:
        wants_pre_start = self.pre_start is not None
        options = pb.DevicePluginOptions(get_preferred_allocation_available=True, pre_start_required=wants_pre_start)
        return options.SerializeToString()

    async def _list_and_watch(self, request: bytes, context: CallContext) -> AsyncIterator[bytes]:
        async for message in self.table.follow():
            yield message

    async def _get_preferred_allocation(self, request: bytes, context: CallContext) -> bytes:
        async def prefer() -> bytes:
            containers = decode_preferred_request(request)
            return encode_preferred_response([await self.allocator.prefer(container) for container in containers])

        return await self._answer("GetPreferredAllocation", context, prefer)

    async def _allocate(self, request: bytes, context: CallContext) -> bytes:
        async def grant() -> bytes:
            response = pb.AllocateResponse()
            for ids in decode_allocate_request(request):
                response.container_responses.append(await self.allocator.allocate(ids))
            return response.SerializeToString()

        return await self._answer("Allocate", context, grant)

    async def _pre_start_container(self, request: bytes, context: CallContext) -> bytes:
        pre_start = self.pre_start
        if pre_start is None:  # a kubelet that knows another plugin's options asks all the same
            return b""

        async def prepare() -> bytes:
            await pre_start(device_ids(read_message(pb.PreStartContainerRequest, request).devices_ids))
            return b""

        return await self._answer("PreStartContainer", context, prepare)

    async def _answer(self, call: str, context: CallContext, work: Callable[[], Awaitable[bytes]]) -> bytes:
        started = self.clock()
        try:
            answer = await work()
        except GcushareError as error:
            self.observe(call, self.clock() - started, type(error).__name__)
            logger.warning("%s refused: %s", call, error)
            await context.abort(next(code for kind, code in STATUS_OF_ERROR if isinstance(error, kind)), str(error))
        except Exception:
            self.observe(call, self.clock() - started, "defect")
            raise  # gRPC logs it and answers the kubelet.
        self.observe(call, self.clock() - started, "")
        return answer
