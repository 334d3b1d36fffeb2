"""The device list as the kubelet is told it: encoded once per state, sent to every open ListAndWatch stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping

from gcushare.core.cards import Health, Inventory, InventoryCard
from gcushare.wire.device_ids import device_ids_of_card
from gcushare.wire.device_lists import encode_devices, must_be_brief


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
        """Set the list from an inventory; False where nothing changed for the kubelet. About 60 ms at 262,144 units.

        Card by card: an object per id of the whole node would stay in the process's memory as its high-water mark.
        """
        kept: dict[int, frozenset[str]] = {}
        for card in inventory.cards:
            if card.health is Health.UNHEALTHY:
                kept[card.index] = frozenset()
            elif card.index in closed:
                kept[card.index] = frozenset(held.get(card.index, ()))
        healthy = sum(len(kept[card.index]) if card.index in kept else card.units for card in inventory.cards)
        is_brief = must_be_brief(healthy, inventory.total_units - healthy)
        message = b"".join(_encode_card(card, kept.get(card.index), is_brief) for card in inventory.cards)
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


def _encode_card(card: InventoryCard, kept: frozenset[str] | None, is_brief: bool) -> bytes:
    """The part of one card; ``kept`` are its healthy ids, None for all of them."""
    ids = device_ids_of_card(card.index, card.units)
    if kept is None:
        return encode_devices(ids, is_healthy=True)
    well = [device_id for device_id in ids if device_id in kept] if kept else []
    ill = [device_id for device_id in ids if device_id not in kept] if kept else ids
    return encode_devices(well, is_healthy=True) + encode_devices(ill, is_healthy=False, is_brief=is_brief)
