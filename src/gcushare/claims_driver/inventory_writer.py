"""Keeps the Node's inventory annotation as it should be, from which every reader learns the cards of this node.

It is the annotation that the device plugin writes on its nodes; its mode is "claims" here.
"""

from __future__ import annotations

import asyncio
import logging
import random

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.cards import Inventory
from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.wire.nodes import encode_inventory

logger = logging.getLogger(__name__)

LEAST_INTERVAL_S = 0.5
"""Between two writes, if another program keeps changing the annotation."""


class InventoryWriter:
    """Writes the annotation ``key`` of one node. ``run`` is its owner task.

    ``problem`` says why the Node does not have its inventory; it is "" if it does, or will in a moment.
    """

    def __init__(self, client: KubeClient, node: str, key: str, rng: random.Random) -> None:
        self._client = client
        self._node = node
        self._key = key
        self._wanted: str | None = None
        self._current: str | None = None
        self._wake = asyncio.Event()
        self._backoff = Backoff(BackoffPolicy(), rng)
        self.problem = ""

    def on_node_update(self, text: str | None) -> None:
        """Use what the Node has under the key; None if it has nothing."""
        self._current = text
        self._wake.set()

    def publish(self, inventory: Inventory) -> None:
        """Have this inventory written."""
        self._wanted = encode_inventory(inventory)
        self._wake.set()

    async def run(self) -> None:
        """Write what differs, whenever something changed, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            wanted = self._wanted
            if wanted is None or wanted == self._current:
                continue
            try:
                await self._client.patch_node_annotations(self._node, {self._key: wanted})
            except GcushareError as error:
                delay_s = self._backoff.next_delay_s(error)
                self.problem = f"the inventory could not be written to the Node: {error}"
                logger.warning("inventory not written; will retry %s", fields(error=error, delay_s=round(delay_s, 1)))
                await asyncio.sleep(delay_s)
                self._wake.set()
            else:
                self._backoff.reset()
                self.problem = ""
                logger.info("published the inventory %s", fields(node=self._node))
                await asyncio.sleep(LEAST_INTERVAL_S)
