"""Whole cards: which ones a container gets.

A card that is in shared use is never among them, whatever the kubelet believes: it learns of a card's closing some
milliseconds after the first unit of it was handed out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gcushare.core.cards import Inventory, InventoryCard
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.matching import Candidate, order_candidates
from gcushare.core.placement import WHOLE_CARD_POLICIES
from gcushare.core.topology import CLOSE, CardPlace
from gcushare.device_plugin.allocation.allocator import CardAllocator, Preference
from gcushare.device_plugin.allocation.response import Grant
from gcushare.device_plugin.pods.pod import CardCounts
from gcushare.wire.kubelet.device_lists import DeviceIds, PreferredRequest
from gcushare.wire.kubelet.whole_card_ids import decode_whole_card_id, encode_id_entry, encode_whole_card_id


class WholeCardAllocator(CardAllocator):
    """Serves one node's whole-card resource, from the same pod store as that for memory.

    Without a scheduler that chooses cards (``--mode whole``) none is kept for any pod, so no call waits for its pod.
    """

    is_whole = True

    def _free(self, request: PreferredRequest) -> CardCounts:
        return dict.fromkeys((*read_cards(request.available), *read_cards(request.must_include)), 1)

    def _count(self, ids: DeviceIds) -> CardCounts:
        return dict.fromkeys(read_cards(ids), 1)

    def _has_room(self, candidate: Candidate, size: int, free: CardCounts) -> bool:
        return len(free.keys() & set(candidate.card_indexes)) >= size

    def _match(self, size: int, free: CardCounts) -> Candidate | None:
        return match_whole(self._store.candidates(whole=True), size, free)

    def _choose(self, request: PreferredRequest, inventory: Inventory) -> Preference:
        memory = {index: "" for index, units in self._store.promised().items() if units}
        use = NodeUse(
            cards={card.index: card for card in inventory.cards},
            shared=self._store.cards_in_use(whole=False),
            promised=memory | self._store.promised_whole(),
        )
        free, included = read_cards(request.available), read_cards(request.must_include)
        return choose_whole_cards(request.size, free, self._store.candidates(whole=True), use, included)

    def _check(self, counts: CardCounts, candidate: Candidate | None) -> None:
        shared = self._store.cards_in_use(whole=False).intersection(counts)
        check_not_shared(counts, {index: self._store.users_of(index, whole=False) for index in shared})

    def _grant(self, cards: tuple[InventoryCard, ...], size: int, candidate: Candidate | None) -> Grant:
        return Grant(cards, sum(card.units for card in cards), whole=True)


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What is known of the node's cards beside the kubelet's free list.

    ``shared``: cards of which pods hold memory. ``promised``: cards that are kept for waiting pods, whole (with the uid
    of the pod) or for their memory (with "").
    """

    cards: Mapping[int, InventoryCard]
    shared: frozenset[int] = frozenset()
    promised: Mapping[int, str] = field(default_factory=dict)


def read_cards(ids: DeviceIds) -> tuple[int, ...]:
    """Read the cards that ids name, in ascending order.

    Raises:
        RemoteContractError: an id is no whole card of ours.
    """
    if ids.run:
        raise RemoteContractError(
            f"device id {ids.text()[0]!r} names a unit of memory, and whole cards were asked for: two plugins or "
            "releases seem to have registered the same resource"
        )
    return tuple(sorted({decode_whole_card_id(device_id) for device_id in ids.foreign}))


def choose_whole_cards(
    size: int, free: Sequence[int], candidates: Sequence[Candidate], use: NodeUse, included: Sequence[int] = ()
) -> Preference:
    """Choose a container's cards: those kept for its pod, else cards that are kept for no pod, by the pod's policy.

    ``size`` cards of those that the kubelet has ``free``, with the ``included`` ones among them.

    Raises:
        Refused: too few cards are free; says which are and what the others are used for.
    """
    usable = [index for index in free if index in use.cards and index not in use.shared]
    candidate = match_whole(candidates, size, usable)
    own = candidate.card_indexes if candidate is not None else ()
    chosen = [index for index in included if index in use.cards]
    chosen += [index for index in own if index in usable and index not in chosen]
    del chosen[size:]
    if len(chosen) < size:
        left = [index for index in usable if index not in chosen]
        chosen += _others(size - len(chosen), left, use, candidate)
    if len(chosen) < size:
        raise Refused(describe_too_few(size, usable, use))
    cards = tuple(sorted(chosen))
    entries = [encode_id_entry(encode_whole_card_id(index)) for index in cards]
    return Preference(entries, cards, candidate, own if own and not set(cards) <= set(own) else ())


def match_whole(candidates: Sequence[Candidate], size: int, free: Collection[int]) -> Candidate | None:
    """The pod that a call for ``size`` whole cards most likely means: the first in line whose own cards are free."""
    ordered = order_candidates(candidates, size, whole=True)
    ready = (c for c in ordered if len(set(c.card_indexes).intersection(free)) >= size and not c.is_displaced)
    return next(ready, ordered[0] if ordered else None)


def check_not_shared(cards: Collection[int], shared: Mapping[int, Sequence[str]]) -> None:
    """Check that none of the cards is in shared use; ``shared`` are the pods that hold memory, by card.

    Raises:
        Refused: names the card and its pods; the kubelet fails the pod with it.
    """
    for index in cards:
        if index in shared:
            pods = ", ".join(shared[index]) or "a pod of this node"
            raise Refused(
                f"card {index} is shared: {pods} uses memory of it, so it cannot be given whole; "
                "the pod must be scheduled again"
            )


def describe_too_few(size: int, usable: Sequence[int], use: NodeUse) -> str:
    """Say what was asked for and what each card is; the kubelet shows it on the pod."""
    states = ", ".join(f"card {index}: {_state(index, usable, use)}" for index in sorted(use.cards))
    return (
        f"{size} whole card{'s' if size != 1 else ''} wanted, {len(usable)} free on this node "
        f"({states or 'it has no cards'}); the pod must be scheduled again"
    )


def _others(count: int, usable: Sequence[int], use: NodeUse, candidate: Candidate | None) -> list[int]:
    """Cards by the pod's policy, of those that are kept for no pod else as long as there are enough of them."""
    uid = candidate.pod.uid if candidate is not None else None
    name = candidate.request.cards.whole_policy if candidate is not None else CLOSE
    unpromised = [index for index in usable if index not in use.promised or use.promised[index] == uid]
    for able in (unpromised, usable):
        found = WHOLE_CARD_POLICIES[name].choose([_place(use.cards[index]) for index in able], count)
        if found is not None:
            return list(found)
    return []


def _place(card: InventoryCard) -> CardPlace:
    return CardPlace(card.index, card.card.numa_node, card.card.link_group)


def _state(index: int, usable: Sequence[int], use: NodeUse) -> str:
    if index in use.shared:
        return "shared"
    if index in usable:
        return "free"
    return "in use or not healthy" if use.cards[index].is_usable else "not taking pods"
