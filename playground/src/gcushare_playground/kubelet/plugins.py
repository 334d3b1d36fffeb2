"""The registration side of the device manager: ``kubelet.sock``, the plugins behind it, and their streams."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from collections.abc import Callable
from pathlib import Path

import grpc
import grpc.aio

from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.amounts import is_extended
from gcushare_playground.kubelet.allocation import PluginCallError
from gcushare_playground.kubelet.books import DeviceBooks
from gcushare_playground.kubelet.checkpoint import CheckpointFile
from gcushare_playground.kubelet.endpoints import PluginEndpoint, serve_method

logger = logging.getLogger(__name__)


class PluginManager:
    """Registered plugins, kept in step with the books.

    As in the stock kubelet, one endpoint stands per resource while every plugin connection has its stream; the end of
    *any* stream of a resource marks the resource unhealthy and its *current* endpoint stopped. A plugin that registers
    twice with the same kubelet and then ends its older stream therefore loses the newer one too. A resource is never
    dropped: the stock kubelet does that when its plugin has been gone for five minutes.
    """

    def __init__(
        self,
        directory: Path,
        books: DeviceBooks,
        checkpoint: CheckpointFile,
        *,
        on_change: Callable[[], None],
        message_limit_bytes: int,
    ) -> None:
        self.directory = directory
        self._message_limit_bytes = message_limit_bytes
        self.endpoints: dict[str, PluginEndpoint] = {}
        self.registrations = 0
        self._books = books
        self._checkpoint = checkpoint
        self._on_change = on_change
        self._streams: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._server: grpc.aio.Server | None = None

    @property
    def socket_path(self) -> Path:
        return self.directory / "kubelet.sock"

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Remove every socket in the directory and listen on ``kubelet.sock``; streams run in the task group."""
        self._tasks = tasks
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_sockets(self.directory)
        for resource in self._books.counts():
            self.endpoints[resource] = PluginEndpoint.stopped(resource)
        handler = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=pb.RegisterRequest.FromString,
            response_serializer=pb.Empty.SerializeToString,
        )
        self._server = await serve_method(self.socket_path, services.REGISTER, handler)
        logger.info("registration socket serving path=%s", self.socket_path)

    async def stop(self) -> None:
        """Stop listening and close every connection; the plugins see their streams end."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=None)
        streams = list(self._streams)
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    async def _register(self, request: pb.RegisterRequest, context: grpc.aio.ServicerContext) -> pb.Empty:
        logger.info("registration requested resource=%s endpoint=%s", request.resource_name, request.endpoint)
        problem = _find_problem(request)
        if problem is not None:
            logger.warning("registration refused resource=%r reason=%s", request.resource_name, problem)
            await context.abort(grpc.StatusCode.UNKNOWN, problem)
        socket_path = self.directory / request.endpoint
        endpoint = PluginEndpoint(request.resource_name, socket_path, self._message_limit_bytes)
        try:
            await endpoint.connect()
        except PluginCallError as error:
            logger.warning("registration failed resource=%s reason=%s", request.resource_name, error)
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        if self._tasks is None:
            raise RuntimeError("plugin registered before start")
        self.endpoints[request.resource_name] = endpoint
        self.registrations += 1
        task = self._tasks.create_task(self._follow(endpoint), name=f"list-and-watch {request.resource_name}")
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)
        logger.info("plugin registered resource=%s socket=%s", request.resource_name, endpoint.socket_path)
        return pb.Empty()

    async def _follow(self, endpoint: PluginEndpoint) -> None:
        resource = endpoint.resource
        try:
            try:
                async for message in endpoint.list_and_watch():
                    self._receive(resource, message)
                reason = "EOF"
            except PluginCallError as error:
                reason = str(error)
            logger.error("ListAndWatch ended unexpectedly resource=%s reason=%s", resource, reason)
        finally:
            await endpoint.close()
        self._disconnected(resource)

    def _receive(self, resource: str, message: pb.ListAndWatchResponse) -> None:
        self._books.apply_list(resource, message.devices)
        self._checkpoint.write(self._books.checkpoint())
        count = self._books.counts()[resource]
        logger.info("devices listed resource=%s total=%d healthy=%d", resource, count.capacity, count.allocatable)
        self._on_change()

    def _disconnected(self, resource: str) -> None:
        current = self.endpoints.get(resource)
        if current is None:
            return
        self._books.mark_unhealthy(resource)
        current.is_stopped = True
        self._on_change()


def remove_sockets(directory: Path) -> None:
    """Remove every unix socket in the directory and nothing else."""
    for path in sorted(directory.iterdir()):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()


def _find_problem(request: pb.RegisterRequest) -> str | None:
    if request.version != services.DEVICE_PLUGIN_VERSION:
        return (
            f"requested API version {json.dumps(request.version)} is not supported by kubelet. "
            f'Supported version is ["{services.DEVICE_PLUGIN_VERSION}"]'
        )
    if not is_extended(request.resource_name):
        return f"the ResourceName {json.dumps(request.resource_name)} is invalid"
    return None
