"""What the allocators of both resources share: the book, the delivery, the pods they wait for, and the cards of now."""

from __future__ import annotations

from collections.abc import Callable

from gcushare.core.cards import Inventory
from gcushare.core.errors import Refused
from gcushare.device_plugin.allocation.response import Delivery
from gcushare.device_plugin.pods.changes import PodChanges
from gcushare.device_plugin.pods.store import PodStore


class CardAllocator:
    """The base of one resource's allocator. Never waits on the API server.

    ``on_allocated`` is called after each grant, so that the kubelet's record is asked soon and the card is closed to
    the other resource at once.
    """

    def __init__(
        self,
        book: PodStore,
        delivery: Delivery,
        pods: PodChanges,
        *,
        wait_for_pod_s: float,
        clock: Callable[[], float],
        on_allocated: Callable[[], None],
    ) -> None:
        self._book = book
        self._delivery = delivery
        self._pods = pods
        self._wait_for_pod_s = wait_for_pod_s
        self._clock = clock
        self._on_allocated = on_allocated
        self._inventory: Inventory | None = None

    def set_inventory(self, inventory: Inventory) -> None:
        """Use these cards for the calls that follow."""
        self._inventory = inventory

    def _require_inventory(self) -> Inventory:
        if self._inventory is None:
            raise Refused("the plugin has not found this node's cards yet; the pod can be created again in a moment")
        return self._inventory
