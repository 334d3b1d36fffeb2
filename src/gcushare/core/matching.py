"""Matching: the kubelet asks for N units without naming a pod. Which container of which pod is it for?

The kubelet admits one pod at a time and asks for its containers in order, init containers first. So a pod that has some
of its containers served comes next, and for any other pod only its first requesting container qualifies. Among pods of
equal size the choice is a guess, because the kubelet does not admit in the order of binding. The plugin checks it
against podresources afterwards and corrects the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gcushare.core.nodes import PodRef
from gcushare.core.requests import PodRequest


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod bound to this node that has containers without device ids.

    ``card_indexes`` are the cards reserved for it; empty if it has no assignment. ``served`` counts the containers that
    already hold ids, in the kubelet's order. ``is_displaced``: its units went to another pod, not yet known which.
    ``is_forgotten``: its record says that it holds its cards, but the kubelet does not know of it.
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
        """Units (or whole cards) that the kubelet will ask for next; 0 if every container is served."""
        if self.served >= len(self.request.containers):
            return 0
        container = self.request.containers[self.served]
        return container.whole_cards or container.units

    @property
    def next_container(self) -> str:
        return self.request.containers[self.served].name


def order_candidates(candidates: Iterable[Candidate], units: int, *, whole: bool = False) -> list[Candidate]:
    """The pods that a call for ``units`` may be for, most likely first.

    A partly served pod comes first; then by assume time (pods without an assignment last), creation time, uid. A pod
    that the kubelet forgot along with its checkpoint already runs on its recorded card. It is returned only if no other
    pod qualifies, because older kubelets admit such pods again when they start.
    """
    matching = [c for c in candidates if c.next_units == units and c.request.cards.whole == whole]
    matching = [c for c in matching if not c.is_forgotten] or matching
    return sorted(
        matching, key=lambda c: (c.served == 0, c.assume_time_ns == 0, c.assume_time_ns, c.pod.created, c.pod.uid)
    )


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
