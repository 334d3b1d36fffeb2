"""The device lists that the kubelet gets: encoded once per change, sent to every open ListAndWatch stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Set

from gcushare.core.cards import Health, Inventory
from gcushare.device_plugin.pods.allocations import KubeletAllocations, ids_of_card
from gcushare.device_plugin.pods.store import PodStore
from gcushare.wire.kubelet.device_ids import (
    DEVICE_BYTES,
    ID_LENGTH,
    KUBELET_MESSAGE_LIMIT_BYTES,
    device_ids_of_card,
    list_bytes,
)
from gcushare.wire.kubelet.plugin_messages import encode_devices, encode_whole_card_list


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

    Of a closed card (sick, gone, cordoned, in whole use) the units that pods hold are healthy, and no others; of a card
    that has become smaller than the number of a held unit, also as many free ones as are left. The kubelet counts
    healthy ids, and kube-scheduler subtracts from them what all pods ask for, so a held id that is not healthy takes a
    unit of another card; and after a kubelet restart its pod is refused.
    """

    def __init__(self, message_limit_bytes: int = KUBELET_MESSAGE_LIMIT_BYTES) -> None:
        super().__init__()
        self._message_limit_bytes = message_limit_bytes
        self._offered: tuple[Inventory, Mapping[int, frozenset[str]]] | None = None

    def offer(self, inventory: Inventory, held: Mapping[int, frozenset[str]]) -> bool:
        """Set the list from an inventory; False if nothing changed for the kubelet. About 60 ms at 262,144 units.

        ``held``: the healthy ids of cards that do not offer all. A sick card without an entry has none: what pods hold
        of it is not known. The list is encoded card by card: objects for all ids of the node at once would
        stay in the process's memory.
        """
        if self._offered == (inventory, held):
            return False
        self._offered = (inventory, held)
        units = inventory.units_by_card
        sick = [card.index for card in inventory.cards if card.health is Health.UNHEALTHY]
        kept = {**dict.fromkeys(sick, frozenset[str]()), **held}
        # What a card does not offer any more: it is gone, or smaller than before.
        beyond = {i: sorted(ids.difference(device_ids_of_card(i, units.get(i, 0)))) for i, ids in kept.items() if ids}
        more = sum(DEVICE_BYTES - ID_LENGTH + len(each) for ids in beyond.values() for each in ids)
        if list_bytes(units) + more > self._message_limit_bytes:  # Then the kubelet would refuse the whole list.
            beyond = {}
        parts = [_encode_card(index, count, kept.get(index)) for index, count in units.items()]
        parts += [encode_devices(ids, is_healthy=True) for _, ids in sorted(beyond.items())]
        self.size = inventory.total_units + sum(map(len, beyond.values()))
        return self._set_message(b"".join(parts))


class WholeCardDeviceList(DeviceList):
    """The whole cards, each with its NUMA node if that is known.

    A closed one (sick, gone, cordoned, or in shared use) is healthy only while a pod holds it.
    """

    def offer(self, inventory: Inventory, *, closed: Collection[int], held: Collection[int]) -> bool:
        """Set the list from an inventory; False if nothing changed for the kubelet. A sick card is always closed."""
        open_to_all = {card.index for card in inventory.cards if card.health is Health.HEALTHY}.difference(closed)
        numa_nodes = dict.fromkeys(held) | {card.index: card.numa_node for card in inventory.cards}
        self.size = len(numa_nodes)
        return self._set_message(encode_whole_card_list(numa_nodes, open_to_all.union(held)))


def _encode_card(index: int, units: int, kept: frozenset[str] | None) -> bytes:
    """The part of one card; ``kept`` are its healthy ids, None for all of them."""
    ids = device_ids_of_card(index, units)
    if kept is None:
        return encode_devices(ids, is_healthy=True)
    healthy = [device_id for device_id in ids if device_id in kept] if kept else []
    unhealthy = [device_id for device_id in ids if device_id not in kept] if kept else ids
    return encode_devices(healthy, is_healthy=True) + encode_devices(unhealthy, is_healthy=False)


class HeldIds:
    """The held units of memory of closed cards. There may be hundreds of thousands, so they are computed once per read.

    A card where pods may hold more than the kubelet has shown is closed only once that is known. Until then none of
    its ids turns unhealthy, unless its hardware is not to be trusted: then all do that are not shown.
    """

    def __init__(self, store: PodStore) -> None:
        self._store = store
        self._made: tuple[KubeletAllocations, frozenset[int], Set[str], dict[int, frozenset[str]]] | None = None
        self._within: dict[int, int] = {}
        """The units of cards where no pod has one beyond them. None is given out once the list ends with them."""

    def find_healthy(
        self, shown: KubeletAllocations, units: Mapping[int, int], closed: frozenset[int], sick: frozenset[int]
    ) -> dict[int, frozenset[str]]:
        """The healthy ids of each card that is closed, or smaller than the number of a unit that a pod holds."""
        used = self._store.cards_in_use(whole=False) - closed - sick
        unsure = frozenset(index for index in used if self._within.get(index) != units.get(index, 0))
        held = dict(self.of_cards(shown, closed | unsure, sick))
        for index in unsure & held.keys():
            ids, offered = held[index], device_ids_of_card(index, units.get(index, 0))
            free = [device_id for device_id in offered if device_id not in ids]
            if len(ids) + len(free) > len(offered):
                held[index] = ids.union(free[: max(0, len(offered) - len(ids))])
            else:
                self._within[index] = len(offered)
                del held[index]
        return held

    def of_cards(
        self, shown: KubeletAllocations, closed: frozenset[int], sick: frozenset[int] = frozenset()
    ) -> dict[int, frozenset[str]]:
        """The held ids of each of these cards; a ``closed`` one with ids that are not known yet is left out."""
        known = closed.difference(self._store.cards_in_doubt()) | sick
        ended = self._store.ended.keys() & shown.pods
        if self._made is None or self._made[0] is not shown or self._made[1:3] != (known, ended):
            self._made = (shown, known, ended, {index: shown.held_ids(index, without=ended) for index in known})
        held = self._made[3]
        if not (fresh := self._store.fresh_ids()):
            return held
        # What was given out since that read.
        return {index: ids | ids_of_card(index, fresh) for index, ids in held.items()}
