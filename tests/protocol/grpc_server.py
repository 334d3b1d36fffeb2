"""One method of a gRPC service on a socket of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio


@asynccontextmanager
async def serving_method(
    socket: Path, method: str, answer: Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[bytes]]
) -> AsyncIterator[None]:
    """Answer calls of ``/service/Method``, request and answer in bytes."""
    service, name = method.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler}),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
