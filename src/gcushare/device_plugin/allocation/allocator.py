"""Answers the kubelet's two calls for one resource: waits for the pod that is meant, decides, remembers.

The flow is the same for memory and for whole cards; what differs (which ids, which checks, what is granted) is a method
of ``memory.MemoryAllocator`` and of ``whole_card.WholeCardAllocator``.
"""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from gcushare.core.cards import Inventory, InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.matching import Candidate, order_candidates
from gcushare.device_plugin.allocation.response import AllocateResponses, Grant
from gcushare.device_plugin.pods.pod import CardCounts
from gcushare.device_plugin.pods.store import PodStore
from gcushare.runtime.logs import fields
from gcushare.wire.kubelet.device_lists import DeviceIds, PreferredRequest
from gcushare.wire.protos import deviceplugin_pb2 as pb

logger = logging.getLogger(__name__)

MOST_IDS_LOGGED = 64
"""Of what one container is given, at debug; a large pod has thousands."""

RECORD_PATIENCE_S = 0.15
"""How long a call waits for the kubelet's record of the one before, where the two may be for one pod: that record shows
an allocation after 6 to 25 ms."""


class PodChanges:
    """Wakes those who wait for a pod whenever the pod store has changed."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def note(self) -> None:
        """Wake everybody who waits: the store has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait for a change that makes the condition true; False when the loop's time is past the deadline first."""
        while not condition():
            changed = self._changed
            try:
                async with asyncio.timeout_at(deadline):
                    await changed.wait()
            except TimeoutError:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Preference:
    """The chosen ids of one container, as wire entries, with the cards they belong to and the pod that is meant."""

    entries: list[bytes]
    card_indexes: tuple[int, ...]
    candidate: Candidate | None
    moved_from: tuple[int, ...] = ()
    """The recorded cards, where they had no room and others were chosen; the record is corrected afterwards."""


class CardAllocator(abc.ABC):
    """One resource's allocator. Never waits on the API server.

    ``on_allocated`` is called after each grant, so that the kubelet's record is read soon and the card is closed to
    the other resource at once. With ``wait_for_pod_s`` 0 no call waits for its pod.
    """

    is_whole: ClassVar[bool]

    def __init__(
        self,
        store: PodStore,
        responses: AllocateResponses,
        pods: PodChanges,
        *,
        wait_for_pod_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._responses = responses
        self._pods = pods
        self._wait_for_pod_s = wait_for_pod_s
        self._clock = clock
        self._inventory: Inventory | None = None
        self._expected: tuple[Preference, int] | None = None
        """The preference last given and its size: the Allocate that follows it is for the same container."""
        self.on_allocated: Callable[[], None] = lambda: None

    def set_inventory(self, inventory: Inventory) -> None:
        """Use these cards for the calls that follow."""
        self._inventory = inventory

    async def prefer(self, request: PreferredRequest) -> list[bytes]:
        """Choose the ids of one container.

        Raises:
            Refused, RemoteContractError: no card fits, or the ids are of another layout; the pod fails with it.
        """
        inventory = self._require_inventory()
        await self._wait_for_candidate(request.size, self._free(request))
        preference = self._choose(request, inventory)
        self._expected = (preference, request.size)
        pod = preference.candidate.pod if preference.candidate else None
        logger.debug("preferring %s", fields(pod=pod, size=request.size, card=preference.card_indexes))
        if preference.moved_from:
            logger.warning(
                "the recorded card has no room, another is used %s",
                fields(pod=pod, size=request.size, recorded=preference.moved_from, card=preference.card_indexes),
            )
        return preference.entries

    async def allocate(self, ids: DeviceIds) -> pb.ContainerAllocateResponse:
        """Grant one container the cards that its ids name.

        Raises:
            Refused, RemoteContractError: the ids name no card of this node, a card that is in the other use, more
                cards than the container may have, or another layout.
        """
        inventory = self._require_inventory()
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("allocating %s", fields(count=len(ids), ids=",".join(ids.first(MOST_IDS_LOGGED))))
        counts = self._count(ids)
        candidate = self._find_meant(sum(counts.values()), counts)
        known = {card.index: card for card in inventory.cards}
        _check_there(counts, known)
        self._check(counts, candidate)
        if not self.is_whole:
            self._responses.check(known[index] for index in counts)
        uid, container = (candidate.pod.uid, candidate.next_container) if candidate else ("", "")
        self._store.note_allocated(
            uid, container, counts, self._clock(), whole=self.is_whole, ids=None if self.is_whole else ids
        )
        self.on_allocated()
        grant = self._grant(tuple(known[index] for index in sorted(counts)), len(ids), candidate)
        logger.info(
            "allocated %s",
            fields(
                pod=candidate.pod if candidate else "unknown",
                uid=uid or "unknown",
                container=container or "unknown",
                card=",".join(str(index) for index in sorted(counts)),
                units=grant.units,
                whole=self.is_whole,
            ),
        )
        return self._responses.build(grant, inventory.unit)

    @abc.abstractmethod
    def _free(self, request: PreferredRequest) -> CardCounts:
        """The amount per card that the kubelet can still give out: units, or 1 per whole card."""

    @abc.abstractmethod
    def _count(self, ids: DeviceIds) -> CardCounts:
        """The amount per card that ids stand for; raises RemoteContractError for those of another layout."""

    @abc.abstractmethod
    def _has_room(self, candidate: Candidate, size: int, free: CardCounts) -> bool:
        """Whether the cards kept for a pod are free."""

    @abc.abstractmethod
    def _match(self, size: int, free: CardCounts) -> Candidate | None:
        """The pod that a call for this size most likely means."""

    @abc.abstractmethod
    def _choose(self, request: PreferredRequest, inventory: Inventory) -> Preference:
        """Choose the ids; raises Refused where no card fits."""

    @abc.abstractmethod
    def _check(self, counts: CardCounts, candidate: Candidate | None) -> None:
        """Raise Refused where these cards must not be given."""

    @abc.abstractmethod
    def _grant(self, cards: tuple[InventoryCard, ...], size: int, candidate: Candidate | None) -> Grant:
        """What the container is given, for the response."""

    def _require_inventory(self) -> Inventory:
        if self._inventory is None:
            raise Refused("the plugin has not found this node's cards yet; the pod can be created again in a moment")
        return self._inventory

    async def _wait_for_candidate(self, size: int, free: CardCounts) -> None:
        """Wait, bounded, for a bound pod that the kubelet has seen before our own watch has.

        Pods whose cards are taken are no reason to go on: their cards went to a pod of their kind, and the cards of
        that one, free for them, are known once it is seen.
        """
        if not self._wait_for_pod_s:
            return
        now = asyncio.get_running_loop().time()
        patience = now + min(self._wait_for_pod_s, RECORD_PATIENCE_S)
        await self._pods.until(lambda: not self._store.may_continue_another(size, whole=self.is_whole), patience)

        def has_candidate() -> bool:
            candidates = order_candidates(self._store.candidates(whole=self.is_whole), size, whole=self.is_whole)
            return any(not each.card_indexes or self._has_room(each, size, free) for each in candidates)

        if not await self._pods.until(has_candidate, now + self._wait_for_pod_s):
            facts = fields(size=size, whole=self.is_whole, waited_s=self._wait_for_pod_s)
            logger.warning("no bound pod with room on its card asks for this size %s", facts)

    def _find_meant(self, size: int, counts: Mapping[int, int]) -> Candidate | None:
        expected, self._expected = self._expected, None
        if expected is not None:
            preference, expected_size = expected
            meant = preference.candidate
            if meant is not None and expected_size == size and set(preference.card_indexes) == set(counts):
                candidates = self._store.candidates(whole=self.is_whole)
                return next((c for c in candidates if c.pod.uid == meant.pod.uid and c.served == meant.served), None)
        return self._match(size, counts)


def _check_there(cards: Collection[int], known: Collection[int]) -> None:
    if not cards:
        raise Refused("the kubelet asked to allocate no device ids; nothing was granted")
    for index in cards:
        if index not in known:
            raise Refused(f"card {index} is not on this node any more; its cards are {sorted(known)}")
