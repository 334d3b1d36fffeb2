"""Answers the kubelet's two calls for the whole-card resource, from the same book as those for memory."""

from __future__ import annotations

import asyncio
import logging

from gcushare.core.matching import Candidate, order_candidates
from gcushare.device_plugin.allocation.allocator import CardAllocator
from gcushare.device_plugin.allocation.choice import check_there
from gcushare.device_plugin.allocation.memory import RECORD_PATIENCE_S
from gcushare.device_plugin.allocation.response import Grant
from gcushare.device_plugin.allocation.whole_card_choice import (
    NodeUse,
    WholeAsk,
    WholeChoice,
    check_not_shared,
    choose_whole_cards,
    match_whole,
    read_cards,
)
from gcushare.runtime.logs import fields
from gcushare.wire.kubelet.device_lists import DeviceIds, PreferredRequest
from gcushare.wire.kubelet.whole_card_ids import encode_id_entry, encode_whole_card_id
from gcushare.wire.protos import deviceplugin_pb2 as pb

logger = logging.getLogger(__name__)


class WholeCardAllocator(CardAllocator):
    """Serves one node's whole-card resource.

    With ``wait_for_pod_s`` 0 no call waits for its pod: without a scheduler that chooses cards, none is kept for any.
    """

    _expected: WholeChoice | None = None

    async def prefer(self, request: PreferredRequest) -> list[bytes]:
        """Choose the cards of one container.

        Raises:
            Refused, RemoteContractError: too few cards are free, or the ids are none of ours.
        """
        self._require_inventory()
        ask = WholeAsk(request.size, read_cards(request.available), read_cards(request.must_include))
        await self._wait_for_candidate(ask)
        choice = choose_whole_cards(ask, self._book.candidates(whole=True), self._use())
        self._expected = choice
        if choice.moved_from:
            logger.warning(
                "the recorded cards are not free, others are used %s",
                fields(
                    pod=choice.candidate.pod if choice.candidate else None,
                    recorded=choice.moved_from,
                    cards=choice.cards,
                ),
            )
        return [encode_id_entry(encode_whole_card_id(index)) for index in choice.cards]

    async def allocate(self, ids: DeviceIds) -> pb.ContainerAllocateResponse:
        """Grant one container the cards that its ids name.

        Raises:
            Refused, RemoteContractError: no cards, cards that the node does not have, or one of them is shared.
        """
        inventory = self._require_inventory()
        indexes = read_cards(ids)
        known = {card.index: card for card in inventory.cards}
        check_there(indexes, known)
        shared = self._book.cards_in_use(whole=False).intersection(indexes)
        check_not_shared(indexes, {index: self._book.users_of(index, whole=False) for index in shared})
        candidate = self._meant_by(indexes)
        uid, container = (candidate.pod.uid, candidate.next_container) if candidate else ("", "")
        self._book.note_allocated(uid, container, dict.fromkeys(indexes, 1), self._clock(), whole=True)
        self._on_allocated()
        logger.info(
            "allocated whole cards %s",
            fields(
                pod=candidate.pod if candidate else "unknown",
                uid=uid or "unknown",
                container=container or "unknown",
                cards=",".join(str(index) for index in indexes),
            ),
        )
        cards = tuple(known[index] for index in indexes)
        return self._delivery.answer(Grant(cards, sum(card.units for card in cards), whole=True), inventory.unit)

    async def _wait_for_candidate(self, ask: WholeAsk) -> None:
        """Wait, bounded, for a bound pod that the kubelet has seen before our own watch has."""
        if not self._wait_for_pod_s:
            return
        now = asyncio.get_running_loop().time()
        settled = now + min(self._wait_for_pod_s, RECORD_PATIENCE_S)
        await self._pods.until(lambda: not self._book.may_continue_another(ask.size, whole=True), settled)
        if not await self._pods.until(lambda: self._has_candidate(ask), now + self._wait_for_pod_s):
            facts = fields(cards=ask.size, waited_s=self._wait_for_pod_s)
            logger.warning("no bound pod whose cards are free asks for so many whole cards %s", facts)

    def _has_candidate(self, ask: WholeAsk) -> bool:
        free = set(ask.free) | set(ask.included)
        return any(
            not candidate.card_indexes or len(free.intersection(candidate.card_indexes)) >= ask.size
            for candidate in order_candidates(self._book.candidates(whole=True), ask.size, whole=True)
        )

    def _meant_by(self, indexes: tuple[int, ...]) -> Candidate | None:
        expected, self._expected = self._expected, None
        candidates = self._book.candidates(whole=True)
        if expected is not None and expected.cards == indexes and expected.candidate is not None:
            meant = expected.candidate
            return next((c for c in candidates if c.pod.uid == meant.pod.uid and c.served == meant.served), None)
        return match_whole(candidates, len(indexes), indexes)

    def _use(self) -> NodeUse:
        inventory = self._require_inventory()
        promised = {index: "" for index, units in self._book.promised().items() if units}
        return NodeUse(
            cards={card.index: card for card in inventory.cards},
            shared=self._book.cards_in_use(whole=False),
            promised=promised | self._book.promised_whole(),
        )
