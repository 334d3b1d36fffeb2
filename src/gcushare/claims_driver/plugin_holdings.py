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
FREE_POLL_S = 10.0
"""While nothing is in the way: an admin may start a plugin on this node at any time."""


async def follow_plugin_pods(socket: Path, vendor: Vendor, on_read: Callable[[Sequence[str]], bool]) -> None:
    """Report the holding pods, ``namespace/name``, at each poll, until cancelled.

    ``on_read`` returns whether the cards are free for claims, so that the next poll may wait.
    """
    failure = ""
    while True:
        is_free = False
        try:
            body = await list_pod_resources(socket)
            found = decode_holdings(body, vendor.memory_resource, vendor.whole_card_resource)
        except (RetryableError, RemoteContractError) as error:
            if str(error) != failure:
                logger.warning("the kubelet's record cannot be read; will retry %s", fields(reason=error))
            failure = str(error)
        else:
            failure = ""
            is_free = on_read(tuple(sorted({holding.pod for holding in found})))
        await asyncio.sleep(FREE_POLL_S if is_free else POLL_S)
