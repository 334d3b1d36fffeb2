"""Chooses the ids that a container should get: units of its pod's recorded card, or its pod's whole cards. Pure.

If these have no room, other cards are chosen, first of all cards that are kept for no other pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gcushare.core.cards import InventoryCard
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.matching import Candidate, find_possible, has_room, match
from gcushare.core.requests import split_over_cards
from gcushare.core.whole_cards import CLOSE, WHOLE_CARD_POLICIES, by_index, linked_sets
from gcushare.core.wording import counted, some_names
from gcushare.node.pods import CardCounts
from gcushare.wire.kubelet.device_ids import decode_whole_card_id, encode_whole_card_id
from gcushare.wire.kubelet.plugin_messages import DeviceIds, PreferredRequest, check_no_foreign, encode_id_entry

MOST_PODS_NAMED = 5
"""Pods in one message; the kubelet writes it into the pod's status."""
EXCLUDED = "not allowed by the pod's annotations"


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
    """Units per card that are free and promised.

    Not to be chosen are the cards in ``whole`` use, and those that are not ``allowed`` to every pod that a call may be
    for; ``pods`` are these. ``begun``: the cards of pods that are not known here.
    """

    free: Mapping[int, int]
    promised: Mapping[int, int]
    cards: Mapping[int, InventoryCard]
    whole: Collection[int]
    allowed: Collection[int]
    pods: Sequence[Candidate]
    begun: Collection[int] = ()

    def describe_shortage(self, size: int) -> str:
        """Say what was asked for and what each card has; the kubelet shows this text on the pod."""
        cards = ", ".join(f"card {index}: {self._state(index)}" for index in sorted(self.cards))
        several = f", and the kubelet does not say which of {_names(self.pods)} it is for" if len(self.pods) > 1 else ""
        return (
            f"no card of this node has {counted(size, 'free unit')} ({cards or 'it has no cards'}){several}; "
            "the pod must be scheduled again"
        )

    def _state(self, index: int) -> str:
        if index in self.whole:
            return "in use as a whole"
        return f"{self.free.get(index, 0)} of {self.cards[index].units}" if index in self.allowed else EXCLUDED


def choose_ids(
    request: PreferredRequest,
    candidates: Sequence[Candidate],
    promised: Mapping[int, int],
    cards: Mapping[int, InventoryCard],
    whole: Collection[int] = (),
    doubtful: Sequence[Candidate] = (),
    begun: Collection[int] = (),
) -> Preference:
    """Choose a container's ids of those available: of its pod's card, or of one that fits if that has no room.

    The answer is right for every pod that the call may be for, the ``doubtful`` ones among them. ``promised`` are units
    per card that are kept for waiting pods; ``cards`` are the node's, by index; ``whole`` are the cards in whole use,
    which the kubelet may not know yet; ``begun`` are those of pods that are not known here, such as a static pod before
    its mirror exists: a call for no known pod may be for their next container.

    Raises:
        Refused: no card has that many free ids, or no answer is right for all of these pods; the message has the cards
            with their free units, or the pods.
        RemoteContractError: the ids are of another plugin's layout.
    """
    included = count_units(request.must_include)
    possible = find_possible(candidates, request.size)
    concerned = merge(possible, doubtful)
    if len({each.request.cards.cards for each in concerned}) > 1:
        raise Refused(
            f"the kubelet does not say which of {_names(concerned)} asks for {counted(request.size, 'unit')}, and "
            "these pods want them on different numbers of cards; create the pod again when the others run"
        )
    allowed = find_allowed(concerned, cards.values())
    available = request.available.count_by_card()
    free = {index: count for index, count in available.items() if index in allowed and index not in whole}
    candidate = match(possible, request.size, free)
    own = candidate.card_indexes if candidate else ()
    is_further = candidate is not None and candidate.served > 0 and set(included) <= set(own)
    wanted = own if is_further else tuple(included) or own
    shares = _divide(request.size, included, wanted, candidate.held if candidate else {})
    room = _Room(free, promised, cards, whole, allowed, concerned, begun)
    if not wanted or any(free.get(index, 0) < share for index, share in shares.items()):
        shares = _other_cards(request, candidate, room)
    elif candidate is not None and not candidate.served and not has_room(candidate, request.size, free):
        # Another pod holds units there, so this one's cards are elsewhere: all of its containers must fit.
        others, need = _promised_to_others(promised, candidate), candidate.request.cards.units
        roomy = {index: count for index, count in free.items() if count - max(0, others.get(index, 0)) >= need}
        if not included and len(roomy) >= candidate.request.cards.cards:
            shares = _other_cards(request, candidate, replace(room, free=roomy))
    chosen = tuple(sorted(shares))
    return Preference(
        _entries(request, shares), chosen, candidate, () if is_further or set(chosen) == set(own) else own
    )


def merge(possible: Sequence[Candidate], doubtful: Sequence[Candidate]) -> list[Candidate]:
    """The pods that a call may be for, each once; one that surely goes on is alone."""
    known = {each.pod.uid for each in possible}
    others = [each for each in doubtful if each.pod.uid not in known]
    return [*possible, *others]


def find_allowed(possible: Sequence[Candidate], cards: Iterable[InventoryCard]) -> frozenset[int]:
    """The cards that every pod that a call may be for allows."""
    return frozenset(card.index for card in cards if all(each.allows(card) for each in possible))


def _names(pods: Sequence[Candidate]) -> str:
    return some_names([str(each.pod) for each in pods], MOST_PODS_NAMED)


def _divide(size: int, included: CardCounts, wanted: Sequence[int], held: CardCounts) -> dict[int, int]:
    """Divide a container's units over its pod's cards so that the pod has equally much of each afterwards.

    ``included`` are ids that the pod holds already and that are used again, ``held`` all that it holds.
    """
    new = size - sum(included.values())
    goal = split_over_cards(sum(held.get(index, 0) for index in wanted) + new, wanted)
    shares = dict(included)
    for index, units in goal.items():
        more = min(new, max(0, units - held.get(index, 0)))
        new -= more
        if more or index not in shares:
            shares[index] = shares.get(index, 0) + more
    return {index: units for index, units in shares.items() if units}


def _other_cards(request: PreferredRequest, candidate: Candidate | None, room: _Room) -> dict[int, int]:
    """Choose cards other than the recorded ones; refused for a pod whose other containers hold ids already."""
    if request.must_include or (candidate is not None and candidate.served):
        held = sorted(request.must_include.count_by_card()) or list(candidate.card_indexes if candidate else ())
        raise Refused(
            f"the pod holds card {held}, which has no room for {counted(request.size, 'unit')} more: "
            f"{room.describe_shortage(request.size)}"
        )
    others = _promised_to_others(room.promised, candidate)
    count = candidate.request.cards.cards if candidate else 1
    share = request.size // count
    need = max((each.request.cards.units for each in room.pods), default=None)
    together: Iterable[Collection[int]] = [room.free]
    if count > 1 and any(each.linked for each in room.pods):
        together = linked_sets([room.cards[index] for index in room.free], count)
    for among in together:
        left = {index: units for index, units in room.free.items() if index in among}
        shares: dict[int, int] = {}
        while len(shares) < count and (index := choose_card(left, others, share, need, room.begun)) is not None:
            shares[index] = share
            del left[index]
        if len(shares) == count:
            return shares
    raise Refused(room.describe_shortage(share))


def choose_card(
    free: Mapping[int, int],
    promised: Mapping[int, int],
    units: int,
    need: int | None,
    begun: Collection[int] = (),
) -> int | None:
    """The card for a pod that has none, or whose card is full: the fullest that fits, then the lowest index.

    ``promised`` are units that other pods' records name and that the kubelet has not handed out yet; a card that
    fits only by breaking such a promise is taken last. None when no card fits. All containers of a pod get the same
    card, so one with room for ``need``, the pod's units, comes first. Of a pod that is not known (None) more containers
    may follow: it goes where one has ``begun``, else where most is free.
    """
    able = [index for index, amount in free.items() if amount >= units]
    left = {index: free[index] - promised.get(index, 0) for index in able}
    if need is None:
        return min(able, key=lambda index: (left[index] < units, index not in begun, -free[index], index), default=None)
    return min(able, key=lambda index: (left[index] < units, left[index] < need, free[index], index), default=None)


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
    size: int,
    free: Sequence[int],
    candidates: Sequence[Candidate],
    use: NodeUse,
    included: Sequence[int] = (),
    doubtful: Sequence[Candidate] = (),
) -> Preference:
    """Choose a container's cards: those kept for its pod, else cards that are kept for no pod, by the pod's policy.

    The answer has ``size`` cards of the kubelet's ``free`` ones, the ``included`` ones among them. A card in shared use
    is never chosen, even if the kubelet lists it as free: it learns that the card is closed some milliseconds after
    the first unit of it was given out.

    Raises:
        Refused: too few cards are free; names them, and the use of the others.
    """
    possible = find_possible(candidates, size, whole=True)
    allowed = find_allowed(merge(possible, doubtful), use.cards.values())
    usable = [index for index in free if index in allowed and index not in use.shared]
    candidate = match(possible, size, dict.fromkeys(usable, 1), whole=True)
    own = candidate.card_indexes if candidate is not None else ()
    chosen = [index for index in included if index in use.cards]
    chosen += [index for index in own if index in usable and index not in chosen]
    del chosen[size:]
    if len(chosen) < size:
        left = [index for index in usable if index not in chosen]
        chosen += _other_whole_cards(size - len(chosen), left, use, candidate)
    if len(chosen) < size:
        raise Refused(_describe_too_few(size, usable, use, allowed))
    cards = tuple(sorted(chosen))
    entries = [encode_id_entry(encode_whole_card_id(index)) for index in cards]
    return Preference(entries, cards, candidate, own if own and not set(cards) <= set(own) else ())


def _describe_too_few(size: int, usable: Sequence[int], use: NodeUse, allowed: Collection[int]) -> str:
    """Say what was asked for and what each card is; the kubelet shows it on the pod."""
    states = ", ".join(
        f"card {index}: {_state(index, usable, use) if index in allowed else EXCLUDED}" for index in sorted(use.cards)
    )
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
