"""What is in the way of a request on one node, from one pass over its cards."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gcushare.core.card_state import suffice
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, describe_closure
from gcushare.core.nodes import NodeState
from gcushare.core.requests import CardRequest


class Verdict(enum.Enum):
    """Why a node cannot hold a request, ordered by how easily people can change it."""

    FITS = "room"
    KEPT = "room is kept for another pod there"
    FRAGMENTED = "enough free memory, but not in one card"
    UNLINKED = "enough cards have room, but too few of them are linked with each other (gcushare.io/cards-linked)"
    APART = "the cards with room hold pods that it shares no card with (gcushare.io/apart)"
    FULL = "too little free memory"
    IN_USE = "too few unused cards"
    UNCONFIRMED = "the cards of its pods are not confirmed yet"
    """Free room may be in use already: the records on a card exceed its size, or a bound pod's card is unknown. It ends
    when the node confirms the cards of its pods."""
    CLOSED = "cards with room are closed for a while: containers of deleted pods may still use them"
    ELSEWHERE = "another plugin serves whole cards there, which kube-scheduler counts itself"
    UNUSABLE = "the cards that are large enough are sick or cordoned"
    NOT_ALLOWED = "no card that the pod's annotations allow"
    BELOW_LIMIT = "no card as large as the pod's limit (gcushare.io/memory-limit)"
    TOO_SMALL = "no card that is large enough"
    TOO_FEW = "fewer cards than the pod asks for"
    NEVER_LINKED = "too few of the cards that are large enough are linked with each other (gcushare.io/cards-linked)"
    NO_WHOLE_CARDS = "no whole cards are served there (--mode of its device plugin)"
    NO_MEMORY = "only whole cards are served there (--mode of its device plugin)"
    CLAIMS_ONLY = "its cards are given as claims (label gcushare.io/serve)"
    OTHER_UNIT = "its memory is counted in another unit than the pod's"
    DISTRUSTED = "the kubelet counts its memory in another unit, or for another system"
    AWAITED = "its cards are not known yet, or cannot be read"
    """kube-scheduler asked about it, so its kubelet counts enough of them: it has just joined, or its record is bad."""
    NO_CARDS = "no cards, or none that can be read"
    UNASKED = "kube-scheduler did not ask about it: something else keeps the pod off"
    """Its card memory suffices in sum, so that is not why. Of many nodes kube-scheduler may have taken a sample."""
    AWAY = "it takes no new pods at present"
    EXCLUDED = "the pod may not run there"


WITHOUT_REMEDY = frozenset({Verdict.KEPT, Verdict.UNCONFIRMED, Verdict.CLOSED, Verdict.ELSEWHERE})
"""Verdicts that end without the end of pods, or that say nothing about them."""

POSSIBLE = WITHOUT_REMEDY | {
    *(Verdict.FITS, Verdict.FRAGMENTED, Verdict.FULL, Verdict.IN_USE, Verdict.APART, Verdict.UNLINKED)
}
"""The verdicts of nodes that can hold the request now, or could if pods ended."""

UNSERVED = frozenset(
    {Verdict.NO_WHOLE_CARDS, Verdict.NO_MEMORY, Verdict.CLAIMS_ONLY, Verdict.OTHER_UNIT, Verdict.DISTRUSTED}
)
"""The verdicts of nodes with cards that give none to such requests."""


def evaluate(node: NodeState, request: CardRequest) -> Verdict:
    """The verdict of one node for a request."""
    return CardScan.at(node, request).evaluate(node, request)


@dataclass(slots=True)
class CardScan:
    """The result of one pass over a node's cards. All fields but ``sizes`` cover only cards that the pod allows.

    ``rooms`` is what the cards could give now, ``ever`` what they could if every pod ended: (amount, card index).
    ``large`` counts the cards that are large enough, ``usable`` those of them that take pods. ``confirmed`` counts the
    cards that could hold the request if every pod's card were known, ``open`` if also no card were closed. ``apart``
    counts cards that could hold it now but for pods there with which it shares no card; nothing else counts them as
    having room. ``sum`` is what kube-scheduler counts as free: units, or whole cards, also of cards that the pod does
    not allow.
    """

    sizes: list[int] = field(default_factory=list)
    allowed: int = 0
    total: int = 0
    large: int = 0
    usable: int = 0
    confirmed: int = 0
    open: int = 0
    apart: int = 0
    sum: int = 0
    rooms: list[tuple[int, int]] = field(default_factory=list)
    ever: list[tuple[int, int]] = field(default_factory=list)
    closed: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def at(cls, node: NodeState, request: CardRequest) -> CardScan:
        found, least, is_counted = cls(), max(1, request.units), node.counts_as(request)
        for state in node.cards.values():
            card = state.card
            if card is None:
                continue
            units = card.units
            found.sizes.append(units)
            if card.is_usable and state.serves(request):
                found.sum += not state.pods if request.whole else state.free
            if request.selection is not None and not request.selection.allows(card):
                continue
            found.allowed += 1
            found.total += units
            found.large += units >= least
            if not card.is_usable:
                continue  # It gives nothing now, and would not if every pod ended.
            if not is_counted:
                continue  # So much that the pod's author did not mean it.
            found.usable += units >= least
            if units and state.serves(request):
                found.ever.append((units, state.index))
            room = (units if state.is_empty else 0) if request.whole else state.grantable
            if request.selection is not None and not state.is_open_to(request.selection):
                found.apart += room >= least
                continue
            if room:
                found.rooms.append((room, state.index))
            use = SERVES_WHOLE if request.whole else SERVES_MEMORY
            found.closed += ((state.index, describe_closure(each)) for each in card.closures if each.use == use)
            if state.serves(request) and (not state.pods if request.whole else state.free >= least):
                found.open += units >= least
                found.confirmed += units >= least and card.takes(use)
        return found

    def suffices_in_sum(self, request: CardRequest) -> bool:
        """Whether kube-scheduler's own count of the resource does not keep the request off the node."""
        return self.sum >= (request.cards if request.whole else request.units * request.cards)

    def evaluate(self, node: NodeState, request: CardRequest) -> Verdict:
        if not node.known:
            return Verdict.AWAITED
        if not self.sizes:
            return Verdict.NO_CARDS
        if node.fits(request):
            return Verdict.FITS
        if not node.modes:
            return Verdict.DISTRUSTED
        if node.serves_claims:
            return Verdict.CLAIMS_ONLY
        if not node.counts_as(request):
            return Verdict.OTHER_UNIT
        if not node.serves(request):
            return Verdict.NO_WHOLE_CARDS if request.whole else Verdict.NO_MEMORY
        if self.allowed < request.cards:
            if request.limit and sum(size >= request.limit for size in self.sizes) < request.cards:
                return Verdict.BELOW_LIMIT
            return Verdict.NOT_ALLOWED if request.excludes_cards else Verdict.TOO_FEW
        if self.large < request.cards:
            return Verdict.TOO_SMALL
        if self.usable < request.cards:
            return Verdict.UNUSABLE
        if request.linked and not suffice((s for s in node.cards.values() if s.could_hold(request)), request):
            return Verdict.NEVER_LINKED
        able = sum(room >= request.units for room, _ in self.rooms)
        if self.apart and self.apart + able >= request.cards:
            return Verdict.APART
        if request.linked and able >= request.cards:
            return Verdict.UNLINKED
        if node.is_unconfirmed or self.confirmed >= request.cards:
            return Verdict.UNCONFIRMED
        if self.open >= request.cards:
            return Verdict.CLOSED
        if request.whole:
            return Verdict.IN_USE
        is_enough = sum(room for room, _ in self.rooms) >= request.units * request.cards
        return Verdict.FRAGMENTED if is_enough else Verdict.FULL
