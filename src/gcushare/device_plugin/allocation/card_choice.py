"""Chooses the ids that a container should get: units of its pod's recorded card, or its pod's whole cards. Pure.

If these have no room, other cards are chosen, first of all cards that are kept for no other pod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gcushare.core.cards import InventoryCard
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.matching import Candidate, match
from gcushare.core.placement import CLOSE, WHOLE_CARD_POLICIES, by_index
from gcushare.core.requests import split_over_cards
from gcushare.wire.kubelet.device_ids import decode_whole_card_id, encode_whole_card_id
from gcushare.wire.kubelet.device_lists import DeviceIds, PreferredRequest, check_no_foreign, encode_id_entry


@dataclass(frozen=True, slots=True)
class Preference:
    """The chosen ids of one container, as wire entries, their cards, and the pod that the call is likely for."""

    entries: list[bytes]
    card_indexes: tuple[int, ...]
    candidate: Candidate | None
    moved_from: tuple[int, ...] = ()
    """The recorded cards, if they had no room and others were chosen; the record is corrected afterwards."""


def count_units(ids: DeviceIds) -> dict[int, int]:
    """Count units of memory per card index.

    Raises:
        RemoteContractError: an id is of another layout.
    """
    check_no_foreign(ids)
    return ids.count_by_card()


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


@dataclass(frozen=True, slots=True)
class _Room:
    """Units per card that are free, promised and in total; ``whole`` are cards in whole use, which cannot be chosen."""

    free: Mapping[int, int]
    promised: Mapping[int, int]
    totals: Mapping[int, int]
    whole: Collection[int]

    def describe_shortage(self, size: int) -> str:
        """Say what was asked for and what each card has; the kubelet shows this text on the pod."""
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
    """Choose a container's ids of those available: of its pod's card, or of one that fits if that has no room.

    ``promised`` are units per card that are kept for waiting pods; ``totals`` are all units per card, for the message;
    ``whole`` are the cards in whole use, which the kubelet may not know yet.

    Raises:
        Refused: no card has that many free ids; names the cards and their free units.
        RemoteContractError: the ids are of another plugin's layout.
    """
    included = count_units(request.must_include)
    free = {index: count for index, count in request.available.count_by_card().items() if index not in whole}
    candidate = match(candidates, request.size, free)
    wanted = tuple(included) or (candidate.card_indexes if candidate else ())
    shares = split_over_cards(request.size, wanted)
    if not wanted or any(free.get(index, 0) < share for index, share in shares.items()):
        shares = _other_cards(request, candidate, _Room(free, promised, totals, whole))
    entries = _entries(request, shares)
    cards = tuple(sorted(shares))
    recorded = candidate.card_indexes if candidate else ()
    return Preference(entries, cards, candidate, recorded if recorded and set(recorded) != set(cards) else ())


def _other_cards(request: PreferredRequest, candidate: Candidate | None, room: _Room) -> dict[int, int]:
    """Choose cards other than the recorded ones; refused for a pod whose other containers hold ids already."""
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


def choose_card(free: Mapping[int, int], promised: Mapping[int, int], units: int) -> int | None:
    """The card for a pod that has none, or whose card is full: the fullest that fits, then the lowest index.

    ``promised`` are units that other pods' records name and that the kubelet has not handed out yet; a card that
    fits only by breaking such a promise is taken last. None when no card fits.
    """
    able = [index for index, amount in free.items() if amount >= units]
    if not able:
        return None
    return min(able, key=lambda index: (free[index] - promised.get(index, 0) < units, free[index], index))


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


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The node's cards, and what the kubelet's free list does not say of them.

    ``shared``: cards whose memory pods hold. ``promised``: cards that are kept for waiting pods, whole (with the uid
    of the pod) or for their memory (with "").
    """

    cards: Mapping[int, InventoryCard]
    shared: frozenset[int] = frozenset()
    promised: Mapping[int, str] = field(default_factory=dict)


def choose_whole_cards(
    size: int, free: Sequence[int], candidates: Sequence[Candidate], use: NodeUse, included: Sequence[int] = ()
) -> Preference:
    """Choose a container's cards: those kept for its pod, else cards that are kept for no pod, by the pod's policy.

    The answer has ``size`` cards of the kubelet's ``free`` ones, the ``included`` ones among them. A card in shared use
    is never chosen, even if the kubelet lists it as free: it learns that the card is closed some milliseconds after
    the first unit of it was given out.

    Raises:
        Refused: too few cards are free; names them, and the use of the others.
    """
    usable = [index for index in free if index in use.cards and index not in use.shared]
    candidate = match(candidates, size, dict.fromkeys(usable, 1), whole=True)
    own = candidate.card_indexes if candidate is not None else ()
    chosen = [index for index in included if index in use.cards]
    chosen += [index for index in own if index in usable and index not in chosen]
    del chosen[size:]
    if len(chosen) < size:
        left = [index for index in usable if index not in chosen]
        chosen += _other_whole_cards(size - len(chosen), left, use, candidate)
    if len(chosen) < size:
        raise Refused(_describe_too_few(size, usable, use))
    cards = tuple(sorted(chosen))
    entries = [encode_id_entry(encode_whole_card_id(index)) for index in cards]
    return Preference(entries, cards, candidate, own if own and not set(cards) <= set(own) else ())


def _describe_too_few(size: int, usable: Sequence[int], use: NodeUse) -> str:
    """Say what was asked for and what each card is; the kubelet shows it on the pod."""
    states = ", ".join(f"card {index}: {_state(index, usable, use)}" for index in sorted(use.cards))
    return (
        f"{size} whole card{'s' if size != 1 else ''} wanted, {len(usable)} free on this node "
        f"({states or 'it has no cards'}); the pod must be scheduled again"
    )


def _other_whole_cards(count: int, usable: Sequence[int], use: NodeUse, candidate: Candidate | None) -> list[int]:
    """Choose cards by the pod's policy: of those kept for no other pod if there are enough, else of all."""
    uid = candidate.pod.uid if candidate is not None else None
    name = candidate.request.cards.whole_policy if candidate is not None else CLOSE
    unpromised = [index for index in usable if index not in use.promised or use.promised[index] == uid]
    for able in (unpromised, usable):
        found = WHOLE_CARD_POLICIES[name].choose([use.cards[index] for index in able], count, by_index)
        if found is not None:
            return list(found)
    return []


def _state(index: int, usable: Sequence[int], use: NodeUse) -> str:
    if index in use.shared:
        return "shared"
    if index in usable:
        return "free"
    return "in use or not healthy" if use.cards[index].is_usable else "not taking pods"
