"""Which pods of this node hold units that the device plugin gave: until they end, no claim may take the same cards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from gcushare.core.errors import RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.node.pod_resources import list_pod_resources
from gcushare.vendors import Vendor
from gcushare.wire.kubelet.pod_resources import decode_holdings

logger = logging.getLogger(__name__)

POLL_S = 2.0


async def wait_until_free(socket: Path, vendor: Vendor, on_read: Callable[[Sequence[str]], None]) -> None:
    """Report the holding pods, ``namespace/name``, at each change until there are none.

    The device plugin offers nothing on a node that serves claims, so once there are none none come back.
    """
    before: Sequence[str] | None = None
    failure = ""
    while True:
        try:
            body = await list_pod_resources(socket)
            found = decode_holdings(body, vendor.memory_resource, vendor.whole_card_resource)
        except (RetryableError, RemoteContractError) as error:
            if str(error) != failure:
                logger.warning("the kubelet's record cannot be read; will retry %s", fields(reason=error))
            failure = str(error)
        else:
            pods = tuple(sorted({holding.pod for holding in found}))
            if pods != before:
                on_read(pods)
            before, failure = pods, ""
            if not pods:
                return
        await asyncio.sleep(POLL_S)
