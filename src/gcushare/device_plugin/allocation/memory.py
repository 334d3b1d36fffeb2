"""Memory of cards: which ids a container gets, and what the ids that it got allow.

The preferred answer is ids of the pod's recorded card; the answer to Allocate follows from the ids alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gcushare.core.cards import Inventory, InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.matching import Candidate, choose_card, has_room, match, order_candidates
from gcushare.core.requests import split_over_cards
from gcushare.device_plugin.allocation.allocator import CardAllocator, Preference
from gcushare.device_plugin.allocation.response import Grant
from gcushare.device_plugin.pods.pod import CardCounts
from gcushare.wire.annotations.keys import COMPUTE_SHARE, PROPORTIONAL
from gcushare.wire.kubelet.device_lists import DeviceIds, PreferredRequest, check_no_foreign


class MemoryAllocator(CardAllocator):
    """Serves one node's memory resource from its pod store and inventory."""

    is_whole = False

    def _free(self, request: PreferredRequest) -> CardCounts:
        return request.available.count_by_card()

    def _count(self, ids: DeviceIds) -> CardCounts:
        check_no_foreign(ids)
        return ids.count_by_card()

    def _has_room(self, candidate: Candidate, size: int, free: CardCounts) -> bool:
        return has_room(candidate, size, free)

    def _match(self, size: int, free: CardCounts) -> Candidate | None:
        return match(self._store.candidates(), size, free)

    def _choose(self, request: PreferredRequest, inventory: Inventory) -> Preference:
        totals = {card.index: card.units for card in inventory.cards}
        promised = self._store.promised()
        for index in self._store.promised_whole():
            promised[index] = promised.get(index, 0) + totals.get(index, 0)
        return choose_ids(request, self._store.candidates(), promised, totals, self._store.cards_in_use(whole=True))

    def _check(self, counts: CardCounts, candidate: Candidate | None) -> None:
        check_one_card(counts, cards_per_pod=candidate.request.cards.cards if candidate else 1)
        if candidate is not None and candidate.served:
            held = self._store.entries[candidate.pod.uid].held_cards
            if not set(counts) <= set(held):
                raise Refused(
                    f"container {candidate.next_container!r} of pod {candidate.pod} was given card {sorted(counts)}, "
                    f"and its other containers hold card {list(held)}: all containers of a pod share one card; delete "
                    "the pod"
                )
        for index in self._store.cards_in_use(whole=True).intersection(counts):
            pods = ", ".join(self._store.users_of(index, whole=True)) or "a pod of this node"
            raise Refused(
                f"card {index} is in use as a whole by {pods}, so no memory of it can be given; "
                "the pod must be scheduled again"
            )

    def _grant(self, cards: tuple[InventoryCard, ...], size: int, candidate: Candidate | None) -> Grant:
        """With the sum of the whole pod, where every pod that can be meant asks for the same."""
        meant: list[Candidate] = []
        if candidate is not None:
            meant = [candidate]
            if not candidate.served:
                meant += order_candidates(self._store.candidates(), size)
        sums = {each.request.total_units for each in meant}
        return Grant(
            cards,
            size,
            sums.pop() if len(sums) == 1 else None,
            shares_threads=bool(meant) and all(self._asks_for_threads(each) for each in meant),
        )

    def _asks_for_threads(self, candidate: Candidate) -> bool:
        entry = self._store.entries.get(candidate.pod.uid)
        return entry is not None and entry.annotations.get(COMPUTE_SHARE) == PROPORTIONAL


@dataclass(frozen=True, slots=True)
class _Room:
    """What the node has: units per card that are free, promised and there at all; ``whole`` cards are no choice."""

    free: Mapping[int, int]
    promised: Mapping[int, int]
    totals: Mapping[int, int]
    whole: Collection[int]

    def describe_shortage(self, size: int) -> str:
        """Say what was asked for and what each card has; the kubelet shows it on the pod."""
        cards = ", ".join(f"card {index}: {self._state(index)}" for index in sorted(self.totals))
        return (
            f"no card of this node has {size} free units ({cards or 'it has no cards'}); "
            "the pod must be scheduled again"
        )

    def _state(self, index: int) -> str:
        return "in use as a whole" if index in self.whole else f"{self.free.get(index, 0)} of {self.totals[index]}"


def choose_ids(
    request: PreferredRequest,
    candidates: Sequence[Candidate],
    promised: Mapping[int, int],
    totals: Mapping[int, int],
    whole: Collection[int] = (),
) -> Preference:
    """Choose a container's ids of those available: of the pod's card, or where that has no room of one that fits.

    ``promised`` are units per card that records of waiting pods name; ``totals`` the units per card, for the message;
    ``whole`` the cards that are in use as a whole, which the kubelet may not know yet.

    Raises:
        Refused: no card has that many free ids; names the cards and their free units.
        RemoteContractError: the ids are of another plugin's layout.
    """
    check_no_foreign(request.must_include)
    available = request.available
    free = {index: count for index, count in available.count_by_card().items() if index not in whole}
    included = request.must_include.count_by_card()
    candidate = match(candidates, request.size, free)
    wanted = tuple(included) or (candidate.card_indexes if candidate else ())
    shares = split_over_cards(request.size, wanted)
    if not wanted or any(free.get(index, 0) < share for index, share in shares.items()):
        shares = _other_cards(request, candidate, _Room(free, promised, totals, whole))
    entries = _entries(request, shares)
    cards = tuple(sorted(shares))
    recorded = candidate.card_indexes if candidate else ()
    return Preference(entries, cards, candidate, recorded if recorded and set(recorded) != set(cards) else ())


def check_one_card(counts: Mapping[int, int], *, cards_per_pod: int = 1) -> None:
    """Check that a container's ids are of one card, or of as many as its pod may have.

    Raises:
        Refused: they are of more.
    """
    if len(counts) > cards_per_pod:
        spread = ", ".join(f"{count} of card {index}" for index, count in sorted(counts.items()))
        raise Refused(
            f"{sum(counts.values())} units were taken from {len(counts)} cards ({spread}), and the "
            f"container gets {'one' if cards_per_pod == 1 else cards_per_pod}: the kubelet did not follow the plugin's "
            "preference; delete the pod to have it placed again"
        )


def _other_cards(request: PreferredRequest, candidate: Candidate | None, room: _Room) -> dict[int, int]:
    """Cards other than the recorded ones: none may be chosen for a pod whose other containers hold ids already."""
    if request.must_include or (candidate is not None and candidate.served):
        held = sorted(request.must_include.count_by_card()) or list(candidate.card_indexes if candidate else ())
        raise Refused(
            f"the pod holds card {held}, which has no room for {request.size} units more: "
            f"{room.describe_shortage(request.size)}"
        )
    others = _promised_to_others(room.promised, candidate)
    count = candidate.request.cards.cards if candidate else 1
    share = request.size // count
    left = dict(room.free)
    shares: dict[int, int] = {}
    for _ in range(count):
        index = choose_card(left, others, share)
        if index is None:
            raise Refused(room.describe_shortage(share))
        shares[index] = share
        del left[index]
    return shares


def _promised_to_others(promised: Mapping[int, int], candidate: Candidate | None) -> dict[int, int]:
    others = dict(promised)
    if candidate is not None and candidate.card_indexes:
        for index, share in split_over_cards(candidate.request.total_units, candidate.card_indexes).items():
            others[index] = others.get(index, 0) - share
    return others


def _entries(request: PreferredRequest, shares: Mapping[int, int]) -> list[bytes]:
    if not request.must_include:
        return [entry for index, share in shares.items() for entry in request.available.of_card(index, share)]
    chosen: list[bytes] = []
    for index, share in shares.items():
        included = request.must_include.of_card(index, share)
        have = set(included)
        others = (entry for entry in request.available.of_card(index, len(request.available)) if entry not in have)
        chosen += included
        chosen += [entry for entry, _ in zip(others, range(share - len(included)), strict=False)]
    return chosen
