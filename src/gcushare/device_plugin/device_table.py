"""The device list as the kubelet is told it: encoded once per state, sent to every open ListAndWatch stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping

from gcushare.core.cards import Health, Inventory
from gcushare.wire.device_ids import device_ids_of_card
from gcushare.wire.device_lists import encode_device_list


class DeviceTable:
    """Turns an inventory into the kubelet's list and wakes the streams when the list changes.

    A sick card's units are all unhealthy. A closed card's (cordoned, or in use as a whole) are unhealthy only where
    no pod holds them: a held id that turns unhealthy makes the re-admission of its pod fail after a kubelet restart.
    """

    def __init__(self) -> None:
        self._message = b""
        self._units: dict[int, int] = {}
        self._changed = asyncio.Event()
        self._generation = 0
        self.streams = 0

    @property
    def message(self) -> bytes:
        """The ListAndWatchResponse of now."""
        return self._message

    @property
    def units(self) -> Mapping[int, int]:
        """Units per card index, sick and closed cards included."""
        return self._units

    def offer(self, inventory: Inventory, *, closed: Collection[int], held: Mapping[int, Collection[str]]) -> bool:
        """Set the list from an inventory; False where nothing changed for the kubelet. About 60 ms at 262,144 units."""
        healthy: list[str] = []
        unhealthy: list[str] = []
        for card in inventory.cards:
            ids = device_ids_of_card(card.index, card.units)
            if card.health is Health.UNHEALTHY:
                unhealthy += ids
            elif card.index in closed:
                kept = frozenset(held.get(card.index, ()))
                healthy += [device_id for device_id in ids if device_id in kept]
                unhealthy += [device_id for device_id in ids if device_id not in kept]
            else:
                healthy += ids
        message = encode_device_list(healthy, unhealthy)
        self._units = {card.index: card.units for card in inventory.cards}
        if message == self._message:
            return False
        self._message = message
        self._wake()
        return True

    def hang_up(self) -> None:
        """End the streams that are open: the kubelet drops the plugin, or dials it anew after a registration."""
        self._generation += 1
        self._wake()

    async def follow(self) -> AsyncIterator[bytes]:
        """Yield the list now and after every change, until the caller stops or ``hang_up``."""
        self.streams += 1
        generation = self._generation
        try:
            sent: bytes | None = None
            while generation == self._generation:
                changed = self._changed
                if self._message is not sent:
                    sent = self._message
                    yield sent
                else:
                    await changed.wait()
        finally:
            self.streams -= 1

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
