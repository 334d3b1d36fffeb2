"""Other systems that hand out this node's cards: what its ResourceSlices show, and the advice to an admin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import SLICES_OF_ALL_DRIVERS, Selector
from gcushare.vendors.neighbours import Sighting

logger = logging.getLogger(__name__)

READ_TIMEOUT_S = 2.0
"""A kubelet that has restarted waits for the answer, and must not wait for an API server that is away."""


class SliceDrivers:
    """Reads which drivers publish devices of one node. What cannot be read is logged once, and counts as none."""

    def __init__(self, client: KubeClient, node: str) -> None:
        self._client = client
        self._selector = Selector(fields=f"spec.nodeName={node}")
        self._failure = ""

    async def read(self) -> frozenset[str]:
        """The drivers' names; none if the cluster has no ResourceSlices, or they may not be read."""
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                found = await self._client.list_all(SLICES_OF_ALL_DRIVERS, self._selector)
        except (GcushareError, TimeoutError) as error:
            if not self._failure:
                self._failure = str(error) or "no answer in time"
                logger.debug("ResourceSlices of other drivers are not known %s", fields(reason=self._failure))
            return frozenset()
        return frozenset(str(each.get("spec", {}).get("driver", "")) for each in found)


def describe_others(found: Iterable[Sighting]) -> str:
    """Say which systems offer the cards of this node, and what to do; "" if none does."""
    sightings = list(found)
    if not sightings:
        return ""
    advice = "; ".join(dict.fromkeys(f"{each.neighbour.name}: {each.neighbour.removal}" for each in sightings))
    return (
        f"cards of this node are also handed out by {' and '.join(map(str, sightings))}, and neither system knows what "
        f"the other gives. Keep it off this node ({advice}), or set --other-systems allow if the cards are divided"
    )
