"""Which pods of this node hold units that the device plugin gave: until they end, no claim may take the same cards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
import grpc.aio

from gcushare.core.errors import RemoteContractError, RetryableError
from gcushare.runtime.logs import fields
from gcushare.vendors import Vendor
from gcushare.wire.kubelet.pod_resources import decode_holdings
from gcushare.wire.protos import services

logger = logging.getLogger(__name__)

LIST_TIMEOUT_S = 5.0
POLL_S = 2.0


async def list_plugin_pods(socket: Path, vendor: Vendor) -> tuple[str, ...]:
    """The pods, ``namespace/name``, whose containers hold memory units or whole cards by the kubelet's own record.

    Raises:
        RetryableError: podresources does not answer, or with something else.
    """
    options = [("grpc.max_receive_message_length", services.POD_RESOURCES_ANSWER_LIMIT_BYTES)]
    try:
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
            body = await channel.unary_unary(services.POD_RESOURCES_LIST)(b"", timeout=LIST_TIMEOUT_S)
        found = decode_holdings(body, vendor.memory_resource, vendor.whole_card_resource)
    except grpc.aio.AioRpcError as error:
        raise RetryableError(f"podresources at {socket}: {error.code().name} {error.details()}") from error
    except RemoteContractError as error:
        raise RetryableError(f"podresources at {socket}: {error}") from error
    return tuple(sorted({holding.pod for holding in found}))


async def wait_until_free(
    socket: Path, vendor: Vendor, on_read: Callable[[Sequence[str]], None], *, poll_s: float = POLL_S
) -> None:
    """Report the holding pods at each change until there are none; ``on_read`` is called with none at the end.

    The device plugin offers nothing on a node that serves claims, so once there are none none come back.
    """
    before: Sequence[str] | None = None
    failure = ""
    while True:
        try:
            pods = await list_plugin_pods(socket, vendor)
        except RetryableError as error:
            if str(error) != failure:
                logger.warning("the kubelet's record cannot be read; will retry %s", fields(reason=error))
            failure = str(error)
        else:
            if pods != before:
                on_read(pods)
            before, failure = pods, ""
            if not pods:
                return
        await asyncio.sleep(poll_s)
