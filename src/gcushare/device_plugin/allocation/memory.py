"""Answers the kubelet's two calls: waits for the pod that is meant, decides, remembers, and has the record checked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from gcushare.core.cards import InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.matching import Candidate, has_room, match, order_candidates
from gcushare.device_plugin.allocation.allocator import CardAllocator
from gcushare.device_plugin.allocation.choice import Preference, card_of_ids, choose_ids
from gcushare.device_plugin.allocation.response import Grant
from gcushare.runtime.logs import fields
from gcushare.wire.kubelet.device_lists import DeviceIds, PreferredRequest
from gcushare.wire.protos import deviceplugin_pb2 as pb

logger = logging.getLogger(__name__)

RECORD_PATIENCE_S = 0.15
"""How long a call waits for the kubelet's record of the one before, where the two may be for one pod: that record shows
an allocation after 6 to 25 ms."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """The preference last given: the Allocate that follows it is for the same container."""

    preference: Preference
    size: int


class Allocator(CardAllocator):
    """Serves one node's memory resource from its pod book and inventory."""

    _expected: _Expected | None = None

    async def prefer(self, request: PreferredRequest) -> list[bytes]:
        """Choose the ids of one container.

        Raises:
            Refused, RemoteContractError: no card fits, or the ids are of another layout; the pod is failed with it.
        """
        inventory = self._require_inventory()
        await self._wait_for_candidate(request.size, request.available.count_by_card())
        totals = {card.index: card.units for card in inventory.cards}
        promised = self._book.promised()
        for index in self._book.promised_whole():
            promised[index] = promised.get(index, 0) + totals.get(index, 0)
        whole = self._book.cards_in_use(whole=True)
        preference = choose_ids(request, self._book.candidates(), promised, totals, whole)
        self._expected = _Expected(preference, request.size)
        _log_preference(preference, request.size)
        return preference.entries

    async def allocate(self, ids: DeviceIds) -> pb.ContainerAllocateResponse:
        """Grant one container the cards that its ids name.

        Raises:
            Refused, RemoteContractError: the ids name no card of this node, several cards, a card that is in use as
                a whole, or another layout.
        """
        inventory = self._require_inventory()
        counts = ids.count_by_card()
        candidate = self._meant_by(len(ids), counts)
        known = {card.index: card for card in inventory.cards}
        limit = candidate.request.cards.cards if candidate else 1
        indexes = card_of_ids(ids, {index: card.units for index, card in known.items()}, cards_per_pod=limit)
        self._check_same_card(candidate, indexes)
        self._check_not_whole(indexes)
        cards = tuple(known[index] for index in indexes)
        uid, container = (candidate.pod.uid, candidate.next_container) if candidate else ("", "")
        self._book.note_allocated(uid, container, counts, self._clock(), ids=ids)
        self._on_allocated()
        _log_grant(candidate, cards, len(ids))
        return self._delivery.answer(Grant(cards, len(ids), self._pod_units(len(ids), candidate)), inventory.unit)

    async def _wait_for_candidate(self, size: int, free: Mapping[int, int]) -> None:
        """Wait, bounded, for a bound pod that the kubelet has seen before our own watch has.

        Pods whose cards are taken are no reason to go on: their cards went to a pod of their kind, and the cards of
        that one, free for them, are known once it is seen.
        """
        now = asyncio.get_running_loop().time()
        settled = min(self._wait_for_pod_s, RECORD_PATIENCE_S)
        await self._pods.until(lambda: not self._book.may_continue_another(size), now + settled)
        deadline = now + self._wait_for_pod_s
        if not await self._pods.until(lambda: self._has_candidate(size, free), deadline):
            facts = fields(units=size, waited_s=self._wait_for_pod_s)
            logger.warning("no bound pod with room on its card asks for this size %s", facts)

    def _has_candidate(self, size: int, free: Mapping[int, int]) -> bool:
        return any(
            not candidate.card_indexes or has_room(candidate, size, free)
            for candidate in order_candidates(self._book.candidates(), size)
        )

    def _meant_by(self, size: int, counts: dict[int, int]) -> Candidate | None:
        expected, self._expected = self._expected, None
        candidates = self._book.candidates()
        if expected is not None and expected.size == size and set(expected.preference.card_indexes) == set(counts):
            wanted = expected.preference.candidate
            if wanted is None:
                return match(candidates, size, counts)
            return next((c for c in candidates if c.pod.uid == wanted.pod.uid and c.served == wanted.served), None)
        return match(candidates, size, counts)

    def _check_same_card(self, candidate: Candidate | None, indexes: tuple[int, ...]) -> None:
        if candidate is None or not candidate.served:
            return
        held = self._book.entries[candidate.pod.uid].held_cards
        if not set(indexes) <= set(held):
            raise Refused(
                f"container {candidate.next_container!r} of pod {candidate.pod} was given card {list(indexes)}, and "
                f"its other containers hold card {list(held)}: all containers of a pod share one card; delete the pod"
            )

    def _check_not_whole(self, indexes: tuple[int, ...]) -> None:
        for index in self._book.cards_in_use(whole=True).intersection(indexes):
            pods = ", ".join(self._book.users_of(index, whole=True)) or "a pod of this node"
            raise Refused(
                f"card {index} is in use as a whole by {pods}, so no memory of it can be given; "
                "the pod must be scheduled again"
            )

    def _pod_units(self, size: int, candidate: Candidate | None) -> int | None:
        if candidate is None:
            return None
        sums = {candidate.request.total_units}
        if not candidate.served:
            sums |= {c.request.total_units for c in order_candidates(self._book.candidates(), size)}
        return sums.pop() if len(sums) == 1 else None


def _log_preference(preference: Preference, size: int) -> None:
    pod = preference.candidate.pod if preference.candidate else None
    logger.debug("preferring %s", fields(pod=pod, units=size, card=preference.card_indexes))
    if preference.moved_from:
        logger.warning(
            "the recorded card has no room, another is used %s",
            fields(pod=pod, units=size, recorded=preference.moved_from, card=preference.card_indexes),
        )


def _log_grant(candidate: Candidate | None, cards: tuple[InventoryCard, ...], units: int) -> None:
    logger.info(
        "allocated %s",
        fields(
            pod=candidate.pod if candidate else "unknown",
            uid=candidate.pod.uid if candidate else "unknown",
            container=candidate.next_container if candidate else "unknown",
            card=",".join(str(card.index) for card in cards),
            units=units,
        ),
    )
