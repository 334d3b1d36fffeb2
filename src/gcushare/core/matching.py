"""Matching: the kubelet asks for N units and names no pod; which pod's which container is that?

The kubelet admits one pod at a time and asks for its containers in order, init containers first. So a pod of which
some containers were served is next, and of every other pod only its first requesting container can be meant. Among
pods of equal size the order is a guess (the kubelet's order is not that of binding), which the record's check corrects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gcushare.core.nodes import PodRef
from gcushare.core.requests import PodRequest


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod bound to this node whose containers do not all hold ids yet.

    ``card_indexes`` are the cards kept for it, empty for a pod without an assignment. ``served`` counts its containers
    that were given ids, in the kubelet's order. ``is_displaced``: what was kept for it was handed out, and to whom is
    not known yet. ``is_forgotten``: its record says that it was given its cards, and the kubelet knows of none.
    """

    pod: PodRef
    request: PodRequest
    card_indexes: tuple[int, ...]
    assume_time_ns: int = 0
    served: int = 0
    is_displaced: bool = False
    is_forgotten: bool = False

    @property
    def next_units(self) -> int:
        """Units (or whole cards) of the container that the kubelet asks for next; 0 when all are served."""
        if self.served >= len(self.request.containers):
            return 0
        container = self.request.containers[self.served]
        return container.whole_cards or container.units

    @property
    def next_container(self) -> str:
        return self.request.containers[self.served].name


def order_candidates(candidates: Iterable[Candidate], units: int, *, whole: bool = False) -> list[Candidate]:
    """The pods that a call for ``units`` can mean, likeliest first.

    A pod half served comes first, then by assume time (pods without an assignment last), then creation, then uid. One
    that the kubelet forgot with its checkpoint runs where its record says: it is meant only where no other can be, for
    older kubelets admit such pods again when they start.
    """
    meant = [c for c in candidates if c.next_units == units and c.request.cards.whole == whole]
    meant = [c for c in meant if not c.is_forgotten] or meant
    return sorted(
        meant, key=lambda c: (c.served == 0, c.assume_time_ns == 0, c.assume_time_ns, c.pod.created, c.pod.uid)
    )


def match(
    candidates: Iterable[Candidate], units: int, free: Mapping[int, int], *, whole: bool = False
) -> Candidate | None:
    """The pod that a call for ``units`` (or whole cards) most likely means, given the free ids per card index.

    Among equals one whose recorded cards have room is taken before one whose have not: whichever of them the kubelet
    really means, no third pod's card is touched.
    """
    ordered = order_candidates(candidates, units, whole=whole)
    return next((c for c in ordered if has_room(c, units, free)), ordered[0] if ordered else None)


def has_room(candidate: Candidate, units: int, free: Mapping[int, int]) -> bool:
    """Whether a candidate can be served where it belongs; a half served pod's turn is its own in any case.

    Of whole cards a container gets some of its pod's: as many of these must be free.
    """
    if candidate.request.cards.whole:
        return not candidate.is_displaced and len(free.keys() & set(candidate.card_indexes)) >= units
    if candidate.served:
        return True
    if candidate.is_displaced:
        return False
    share = units // candidate.request.cards.cards
    return bool(candidate.card_indexes) and all(free.get(index, 0) >= share for index in candidate.card_indexes)


def choose_card(free: Mapping[int, int], promised: Mapping[int, int], units: int) -> int | None:
    """The card for a pod that has none, or whose card is full: the fullest that fits, then the lowest index.

    ``promised`` are units that other pods' records name and that the kubelet has not handed out yet; a card that
    fits only by breaking such a promise is taken last. None when no card fits.
    """
    able = [index for index, amount in free.items() if amount >= units]
    if not able:
        return None
    return min(able, key=lambda index: (free[index] - promised.get(index, 0) < units, free[index], index))
