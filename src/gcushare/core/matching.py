"""Matching: the kubelet asks for N units without naming a pod. Which container of which pod is it for?

The kubelet admits one pod at a time and asks for its containers in order, init containers first. So a pod that has some
of its containers served comes next, and for any other pod only its first requesting container qualifies. Among pods
with equal ``KubeletCalls`` the choice is a guess, because the kubelet does not admit in the order of binding; any of
them may have the answer, and the plugin corrects their records by podresources afterwards. Pods whose calls are alike
and whose answers are not must not start together: the extender binds the second once the first has started, and the
plugin answers only what is right for every pod that a call may be for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gcushare.core.assignments import PodRef
from gcushare.core.cards import InventoryCard
from gcushare.core.requests import CardRequest, CardSelection, ContainerKind, PodRequest


@dataclass(frozen=True, slots=True)
class KubeletCalls:
    """What the kubelet asks for one pod, and all that decides which answers are right.

    ``containers``: kind and amount of each container that asks, in the kubelet's order.
    """

    containers: tuple[tuple[ContainerKind, int], ...]
    cards: CardRequest
    shares_compute: bool = False

    @classmethod
    def of(cls, request: PodRequest, *, shares_compute: bool = False) -> KubeletCalls:
        return cls(tuple((c.kind, c.amount) for c in request.containers), request.cards, shares_compute)

    @property
    def amounts(self) -> frozenset[tuple[bool, int]]:
        """The numbers that the kubelet asks for, each with whether it is of whole cards."""
        return frozenset((self.cards.whole, amount) for _, amount in self.containers)

    def is_mistakable_for(self, other: KubeletCalls) -> bool:
        """Whether a call for one pod may look like a call for the other, whose answer would be wrong for the first."""
        return self != other and not self.amounts.isdisjoint(other.amounts)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod bound to this node that has containers without device ids.

    ``card_indexes`` are the cards reserved for it; empty if it has no assignment. ``selection``: the cards that its
    author allows, None for all; ``request`` lacks it once cards were recorded. ``served`` counts the containers that
    already hold ids, in the kubelet's order, and ``held`` are their units by card. ``is_displaced``: its units went to
    another pod, not yet known which. ``is_forgotten``: its record says that it holds its cards, but the kubelet does
    not know of it. ``is_ending``: it is being deleted, and the kubelet hardly admits it any more.
    ``closed``: cards held by pods with which it shares no card.
    """

    pod: PodRef
    request: PodRequest
    card_indexes: tuple[int, ...]
    assume_time_ns: int = 0
    served: int = 0
    held: Mapping[int, int] = field(default_factory=dict)
    selection: CardSelection | None = None
    is_displaced: bool = False
    is_forgotten: bool = False
    is_ending: bool = False
    closed: frozenset[int] = frozenset()

    def allows(self, card: InventoryCard) -> bool:
        """Whether the pod's author allows this card, and no pod there forbids it."""
        return self.selection is None or (self.selection.allows(card) and card.index not in self.closed)

    @property
    def linked(self) -> bool:
        """Whether its cards have to be linked with each other."""
        return self.selection is not None and self.selection.linked

    @property
    def next_units(self) -> int:
        """Units (or whole cards) that the kubelet will ask for next; 0 if every container is served."""
        if self.served >= len(self.request.containers):
            return 0
        container = self.request.containers[self.served]
        return container.whole_cards or container.units

    @property
    def is_partly_served(self) -> bool:
        """Whether the kubelet asks for a further container of this pod next."""
        return 0 < self.served < len(self.request.containers)

    @property
    def next_container(self) -> str:
        return self.request.containers[self.served].name


def order_candidates(candidates: Iterable[Candidate], units: int, *, whole: bool = False) -> list[Candidate]:
    """The pods that a call for ``units`` may be for, most likely first.

    A partly served pod comes first; then by assume time (pods without an assignment last), creation time, uid. A pod
    that the kubelet forgot along with its checkpoint already runs on its recorded card. It is returned only if no other
    pod qualifies, because older kubelets admit such pods again when they start. So is a pod that is being deleted: the
    kubelet may have read it just before.
    """
    matching = [c for c in candidates if c.next_units == units and c.request.cards.whole == whole]
    matching = [c for c in matching if not (c.is_forgotten or c.is_ending)] or matching
    return sorted(
        matching, key=lambda c: (c.served == 0, c.assume_time_ns == 0, c.assume_time_ns, c.pod.created, c.pod.uid)
    )


def find_possible(candidates: Iterable[Candidate], units: int, *, whole: bool = False) -> list[Candidate]:
    """The pods that a call for ``units`` may be for, most likely first: one alone if it is partly served."""
    ordered = order_candidates(candidates, units, whole=whole)
    return ordered[:1] if ordered and ordered[0].served else ordered


def match(
    candidates: Iterable[Candidate], units: int, free: Mapping[int, int], *, whole: bool = False
) -> Candidate | None:
    """The pod that a call for ``units`` (or whole cards) is most likely for, given the free ids per card index.

    Among equals, a pod with room on its recorded cards goes before one without. Whichever of them the kubelet has in
    mind, the answer then takes nothing from a third pod's card.
    """
    ordered = order_candidates(candidates, units, whole=whole)
    return next((c for c in ordered if has_room(c, units, free)), ordered[0] if ordered else None)


def has_room(candidate: Candidate, units: int, free: Mapping[int, int]) -> bool:
    """Whether a candidate's reserved cards have room. A partly served pod always goes next.

    Of memory there must be room for the whole pod: if an equal pod got its cards, they may still have room for the
    first container. Of whole cards a container gets some of its pod's: as many of these must be free.
    """
    if candidate.request.cards.whole:
        return not candidate.is_displaced and len(free.keys() & set(candidate.card_indexes)) >= units
    if candidate.served:
        return True
    if candidate.is_displaced:
        return False
    need = candidate.request.cards.units
    return bool(candidate.card_indexes) and all(free.get(index, 0) >= need for index in candidate.card_indexes)
