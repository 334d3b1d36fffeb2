"""The device lists that the kubelet gets: encoded once per change, sent to every open ListAndWatch stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping

from gcushare.core.cards import Health, Inventory, InventoryCard
from gcushare.device_plugin.pods.allocations import KubeletAllocations, ids_of_card
from gcushare.device_plugin.pods.store import PodStore
from gcushare.wire.kubelet.device_ids import KUBELET_MESSAGE_LIMIT_BYTES, device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import encode_devices, encode_whole_card_list, must_omit_unhealthy


class DeviceList:
    """One resource's list, which wakes its streams when it changes.

    ``size`` is how many devices are listed, sick and closed ones included; ``streams`` how many read the list now.
    """

    def __init__(self) -> None:
        self.message = b""
        """The ListAndWatchResponse of now."""
        self._changed = asyncio.Event()
        self._generation = 0
        self.size = 0
        self.streams = 0

    def hang_up(self) -> None:
        """End all open streams: the kubelet drops the plugin, or connects again after a registration."""
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
                if self.message is not sent:
                    sent = self.message
                    yield sent
                else:
                    await changed.wait()
        finally:
            self.streams -= 1

    def _set_message(self, message: bytes) -> bool:
        """Set the list; False if it is unchanged."""
        if message == self.message:
            return False
        self.message = message
        self._wake()
        return True

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class MemoryDeviceList(DeviceList):
    """The units of memory.

    A sick card's units are all unhealthy. A closed card's (cordoned, or in whole use) are unhealthy only if no pod
    holds them: a held id that turns unhealthy makes the re-admission of its pod fail after a kubelet restart.
    """

    def __init__(self, message_limit_bytes: int = KUBELET_MESSAGE_LIMIT_BYTES) -> None:
        super().__init__()
        self._message_limit_bytes = message_limit_bytes
        self._offered: tuple[Inventory, Mapping[int, frozenset[str]]] | None = None

    def offer(self, inventory: Inventory, held: Mapping[int, frozenset[str]]) -> bool:
        """Set the list from an inventory; False if nothing changed for the kubelet. About 60 ms at 262,144 units.

        ``held``: the closed cards, each with the ids that pods hold. The list is encoded card by card: objects for all
        ids of the node at once would stay in the process's memory.
        """
        if self._offered == (inventory, held):
            return False
        self._offered = (inventory, held)
        kept = {card.index: held[card.index] for card in inventory.cards if card.index in held}
        kept |= {card.index: frozenset() for card in inventory.cards if card.health is Health.UNHEALTHY}
        healthy = sum(len(kept[card.index]) if card.index in kept else card.units for card in inventory.cards)
        unhealthy = inventory.total_units - healthy
        omit = must_omit_unhealthy(inventory.units_by_card, unhealthy, self._message_limit_bytes)
        message = b"".join(_encode_card(card, kept.get(card.index), omit_unhealthy=omit) for card in inventory.cards)
        self.size = inventory.total_units
        return self._set_message(message)


class WholeCardDeviceList(DeviceList):
    """The whole cards, each with its NUMA node if that is known.

    A sick card is unhealthy. A closed one (cordoned, or in shared use) is unhealthy only while no pod holds it.
    """

    def offer(self, inventory: Inventory, *, closed: Collection[int], held: Collection[int]) -> bool:
        """Set the list from an inventory; False if nothing changed for the kubelet."""
        self.size = len(inventory.cards)
        devices = (
            (card, card.health is Health.HEALTHY and (card.index not in closed or card.index in held))
            for card in inventory.cards
        )
        return self._set_message(encode_whole_card_list(devices))


def _encode_card(card: InventoryCard, kept: frozenset[str] | None, *, omit_unhealthy: bool) -> bytes:
    """The part of one card; ``kept`` are its healthy ids, None for all of them."""
    ids = device_ids_of_card(card.index, card.units)
    if kept is None:
        return encode_devices(ids, is_healthy=True)
    healthy = [device_id for device_id in ids if device_id in kept] if kept else []
    unhealthy = [device_id for device_id in ids if device_id not in kept] if kept else ids
    encoded = encode_devices(unhealthy, is_healthy=False, omit_unhealthy=omit_unhealthy)
    return encode_devices(healthy, is_healthy=True) + encoded


class HeldIds:
    """The held units of memory of closed cards. There may be hundreds of thousands, so they are computed once per read.

    podresources hides the ids of ordinary init containers. A card with such a pod on it is closed only after the
    kubelet's checkpoint has shown them; ``want_hidden`` is called with those pods' uids. Until then none of the card's
    ids turns unhealthy. For other cards, which are most, the checkpoint is not read.
    """

    def __init__(self, store: PodStore, want_hidden: Callable[[Collection[str]], None]) -> None:
        self._store = store
        self._want_hidden = want_hidden
        self._made: tuple[KubeletAllocations, frozenset[int], dict[int, frozenset[str]]] | None = None

    def of_cards(self, shown: KubeletAllocations, closed: frozenset[int]) -> dict[int, frozenset[str]]:
        """The held ids of each of these cards; cards with ids that are not known yet are left out."""
        entries = (entry for entry in self._store.entries.values() if not entry.is_whole)
        hidden = {entry.ref.uid: cards for entry in entries if not closed.isdisjoint(cards := entry.hidden_cards)}
        self._want_hidden(hidden.keys())
        known = closed.difference(*(cards for pod, cards in hidden.items() if shown.hides_ids_of(pod)))
        if self._made is None or self._made[0] is not shown or self._made[1] != known:
            self._made = (shown, known, {index: shown.held_ids(index) for index in known})
        held = self._made[2]
        if not (fresh := self._store.fresh_ids()):
            return held
        # What was given out since that read.
        return {index: ids | ids_of_card(index, fresh) for index, ids in held.items()}
