"""Which whole cards a container gets: the plugin's answers for the whole-card resource, decided. Pure.

A card that is in shared use is never among them, whatever the kubelet believes: it learns of a card's closing some
milliseconds after the first unit of it was handed out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gcushare.core.cards import InventoryCard
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.matching import Candidate, order_candidates
from gcushare.core.placement import WHOLE_CARD_POLICIES
from gcushare.core.topology import CLOSE, CardPlace
from gcushare.wire.kubelet.device_lists import DeviceIds
from gcushare.wire.kubelet.whole_card_ids import decode_whole_card_id


@dataclass(frozen=True, slots=True)
class WholeAsk:
    """One container's GetPreferredAllocation: ``size`` cards of ``free``, those in ``included`` among them."""

    size: int
    free: tuple[int, ...]
    included: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What is known of the node's cards beside the kubelet's free list.

    ``shared``: cards of which pods hold memory. ``promised``: cards that are kept for waiting pods, whole (with the uid
    of the pod) or for their memory (with "").
    """

    cards: Mapping[int, InventoryCard]
    shared: frozenset[int] = frozenset()
    promised: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WholeChoice:
    """The cards of one container, and the pod that is meant; ``moved_from`` as in ``allocation.Preference``."""

    cards: tuple[int, ...]
    candidate: Candidate | None
    moved_from: tuple[int, ...] = ()


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


def choose_whole_cards(ask: WholeAsk, candidates: Sequence[Candidate], use: NodeUse) -> WholeChoice:
    """Choose a container's cards: those kept for its pod, else cards that are kept for nobody, by the pod's policy.

    Raises:
        Refused: too few cards are free; says which are and what the others are used for.
    """
    usable = [index for index in ask.free if index in use.cards and index not in use.shared]
    candidate = match_whole(candidates, ask.size, usable)
    own = candidate.card_indexes if candidate is not None else ()
    chosen = [index for index in ask.included if index in use.cards]
    chosen += [index for index in own if index in usable and index not in chosen]
    del chosen[ask.size :]
    if len(chosen) < ask.size:
        left = [index for index in usable if index not in chosen]
        chosen += _others(ask.size - len(chosen), left, use, candidate)
    if len(chosen) < ask.size:
        raise Refused(describe_too_few(ask.size, usable, use))
    cards = tuple(sorted(chosen))
    return WholeChoice(cards, candidate, own if own and not set(cards) <= set(own) else ())


def match_whole(candidates: Sequence[Candidate], size: int, free: Sequence[int]) -> Candidate | None:
    """The pod that a call for ``size`` whole cards most likely means: the first in line whose own cards are free."""
    ordered = order_candidates(candidates, size, whole=True)
    ready = (c for c in ordered if len(set(c.card_indexes).intersection(free)) >= size and not c.is_unsettled)
    return next(ready, ordered[0] if ordered else None)


def check_not_shared(cards: Sequence[int], shared: Mapping[int, Sequence[str]]) -> None:
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
    """Cards by the pod's policy, of those that are kept for nobody else as long as there are enough of them."""
    uid = candidate.pod.uid if candidate is not None else None
    policy = WHOLE_CARD_POLICIES[candidate.request.cards.whole_policy if candidate is not None else CLOSE]
    unpromised = [index for index in usable if index not in use.promised or use.promised[index] == uid]
    for able in (unpromised, usable):
        found = policy([_place(use.cards[index]) for index in able], count)
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
