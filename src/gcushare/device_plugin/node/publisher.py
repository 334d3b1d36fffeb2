"""Publishes this node's cards on its Node object: their inventory as an annotation, their count in the capacity.

The Node is watched: what the kubelet zeroes at a registration, or another client removes, is written again.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection
from dataclasses import dataclass

from gcushare.core.cards import Inventory
from gcushare.core.errors import GcushareError, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.core.quantities import parse_count
from gcushare.device_plugin.publishing import Publisher
from gcushare.kube.client import KubeClient
from gcushare.vendors import Vendor
from gcushare.vendors.neighbours import Sighting, find_neighbours, neighbours_of
from gcushare.wire.nodes import decode_inventory, encode_inventory, parse_card_names
from gcushare.wire.objects import Node

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResourceCounts:
    """What the Node counts of a resource: all that its plugin listed, and those of them that can be handed out."""

    capacity: int
    allocatable: int


class CardsPublisher(Publisher):
    """Keeps the Node's inventory, and its count of cards times ``pods_per_count``, as ``publish`` last said.

    With 0 the Node has no count of ours.
    """

    def __init__(
        self,
        vendor: Vendor,
        node_name: str,
        client: KubeClient,
        *,
        rng: random.Random,
        pods_per_count: int,
    ) -> None:
        super().__init__(rng, "node", "the Node could not be written")
        self._vendor = vendor
        self._node_name = node_name
        self._client = client
        self._pods_per_count = pods_per_count
        self.wanted: Inventory | None = None
        """The inventory that the Node must have; None before the first one, and after a withdrawal."""
        self._node: Node | None = None
        self._published: Inventory | None = None
        """The inventory that the Node has now."""
        self.former: Inventory | None = None
        """The inventory that the Node had when it was first read: that of the plugin that ran before."""

    @property
    def problem(self) -> str:
        if self.wanted is not None and self._node is None:
            return "the Node was not seen yet, and is not written before; see the log for the API server's answer"
        return super().problem

    @property
    def cordoned(self) -> frozenset[str]:
        """Cards that the admin cordoned by annotation, as indexes or uuids."""
        if self._node is None:
            return frozenset()
        return parse_card_names(self._node.metadata.annotations.get(self._vendor.cordon_annotation, ""))

    def published_unit(self) -> str | None:
        """The unit of the inventory on the Node, which an earlier plugin may have written; None if none is readable."""
        return self._published.unit.name if self._published is not None else None

    def counts(self, resource: str) -> ResourceCounts | None:
        """How many of a resource the Node counts; None before it was read, or if its figures are unreadable."""
        if self._node is None:
            return None
        try:
            return ResourceCounts(
                parse_count(str(self._node.status.capacity.get(resource, "0"))),
                parse_count(self._node.status.allocatable.get(resource, "0")),
            )
        except GcushareError:
            return None

    def find_neighbours(self, drivers: Collection[str]) -> tuple[Sighting, ...]:
        """The other systems that offer these cards, by the Node and the drivers of its ResourceSlices."""
        node = self._node if self._node is not None else Node()
        known = neighbours_of(self._vendor.whole_card_resource)
        return find_neighbours(known, node.status.allocatable, node.metadata.annotations, drivers)

    @property
    def kubelet_version(self) -> str:
        """The version of the node's kubelet; "" if the Node was not read yet."""
        return self._node.status.node_info.kubelet_version if self._node is not None else ""

    @property
    def has_seen_node(self) -> bool:
        return self._node is not None

    def publish(self, inventory: Inventory) -> None:
        """Write this inventory as soon as the Node was read."""
        self.wanted = inventory
        self._wake.set()

    def withdraw(self) -> None:
        """Write nothing until the next inventory; the one on the Node stays."""
        self.wanted = None

    def node_applied(self, node: Node) -> None:
        """Use the Node's newest state."""
        is_first = self._node is None
        self._node = node
        self._published = None
        if (text := node.metadata.annotations.get(self._vendor.inventory_annotation)) is not None:
            try:
                self._published = decode_inventory(text)
            except RemoteContractError as error:
                logger.warning("the inventory on the Node cannot be read %s", fields(error=error))
        if is_first:
            self.former = self._published
        self._wake.set()

    async def _write_changes(self) -> bool:
        """Write what differs; False if nothing does.

        Nothing is written before the Node was read: its inventory says in which unit running pods hold memory.
        """
        if self.wanted is None or self._node is None:
            return False
        is_written = False
        key, resource, cards = self._vendor.inventory_annotation, self._vendor.count_resource, len(self.wanted.cards)
        text, count = encode_inventory(self.wanted), cards * self._pods_per_count
        if self._node.metadata.annotations.get(key) != text:
            await self._client.patch_node_annotations(self._node_name, {key: text})
            logger.info("published the inventory %s", fields(cards=cards, unit=self.wanted.unit.name))
            is_written = True
        counts = self.counts(resource)
        is_counted = resource in self._node.status.capacity and counts is not None and counts.capacity == count
        if self._pods_per_count and not is_counted:
            await self._client.patch_node_capacity(self._node_name, {resource: count})
            logger.info("published the card count %s", fields(count=count))
            is_written = True
        return is_written
