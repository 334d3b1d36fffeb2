"""Which card is meant, and what the Node's annotation must say afterwards. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gcushare.core.cards import Card, Inventory
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire.annotations.inventory import decode_inventory
from gcushare.wire.nodes import is_named, parse_card_words


@dataclass(frozen=True, slots=True)
class CordonRequest:
    """What the admin asked for: ``card`` is an index or a uuid, ``vendor`` None where any may be meant."""

    node: str
    card: str
    is_cordon: bool
    vendor: Vendor | None = None


@dataclass(frozen=True, slots=True)
class AnnotationChange:
    """The annotation to write (None removes it), nothing where ``annotation`` is empty.

    ``message`` says what is so now.
    """

    annotation: str
    value: str | None
    message: str

    @property
    def is_change(self) -> bool:
        return self.annotation != ""


@dataclass(frozen=True, slots=True)
class _MeantCard:
    """A card of one vendor; ``card`` is None where only the annotation still names it."""

    vendor: Vendor
    card: Card | None


def decide_annotation(request: CordonRequest, annotations: Mapping[str, str]) -> AnnotationChange:
    """Decide what to write on a Node with these annotations.

    Raises:
        Refused: the node shares no cards, has no such card, or two vendors have one; names what there is.
        RemoteContractError: the node's inventory cannot be read.
    """
    meant = _find(request, annotations)
    before = annotations.get(meant.vendor.cordon_annotation, "")
    words = parse_card_words(before)
    name = _describe(meant.card) if meant.card is not None else request.card
    is_cordoned = request.card in words or (meant.card is not None and is_named(meant.card, words))
    if is_cordoned == request.is_cordon:
        state = "cordoned already" if request.is_cordon else "not cordoned"
        return AnnotationChange("", None, f"card {name} of node {request.node} is {state}")
    after = _with(words, request.card) if request.is_cordon else _without(words, request.card, meant.card)
    effect = "cordoned: no new pods, running ones stay" if request.is_cordon else "uncordoned"
    return AnnotationChange(meant.vendor.cordon_annotation, after, f"card {name} of node {request.node} {effect}")


def _find(request: CordonRequest, annotations: Mapping[str, str]) -> _MeantCard:
    vendors = [request.vendor] if request.vendor is not None else list(VENDORS)
    offered = {vendor.name: _inventory(vendor, annotations, request.node) for vendor in vendors}
    found = [
        _MeantCard(vendor, offer.card)
        for vendor in vendors
        if (inventory := offered[vendor.name]) is not None
        for offer in inventory.cards
        if is_named(offer.card, frozenset((request.card,)))
    ]
    if len(found) > 1:
        names = " and ".join(meant.vendor.name for meant in found)
        raise Refused(
            f"node {request.node} has a card {request.card!r} of {names}: say which with --vendor, or give its uuid"
        )
    if found:
        return found[0]
    if not request.is_cordon:
        # A card that is gone, or a word that was written by hand, can still be taken back.
        for vendor in vendors:
            if request.card in parse_card_words(annotations.get(vendor.cordon_annotation, "")):
                return _MeantCard(vendor, None)
    raise Refused(_explain_absence(request, vendors, [cards for cards in offered.values() if cards is not None]))


def _inventory(vendor: Vendor, annotations: Mapping[str, str], node: str) -> Inventory | None:
    text = annotations.get(vendor.inventory_annotation)
    if text is None:
        return None
    try:
        return decode_inventory(text)
    except RemoteContractError as error:
        raise RemoteContractError(f"{vendor.inventory_annotation} of node {node}: {error}") from error


def _explain_absence(request: CordonRequest, vendors: Sequence[Vendor], inventories: Sequence[Inventory]) -> str:
    if not inventories:
        labels = " or ".join(vendor.node_label for vendor in vendors)
        return (
            f"node {request.node} shares no cards: no device plugin has published any there; it runs on nodes labelled "
            f"{labels}"
        )
    cards = ", ".join(_describe(offer.card) for inventory in inventories for offer in inventory.cards)
    return f"node {request.node} has no card {request.card!r}; its cards are {cards or 'none'}"


def _describe(card: Card) -> str:
    return f"{card.index} ({card.uuid})" if card.uuid else str(card.index)


def _with(words: frozenset[str], card: str) -> str:
    return ",".join(_sorted(words | {card}))


def _without(words: frozenset[str], text: str, card: Card | None) -> str | None:
    """Every word that names the card goes: it may be there by its index and by its uuid."""
    names = {text} if card is None else {str(card.index), card.uuid}
    return ",".join(_sorted(words - names)) or None


def _sorted(words: frozenset[str]) -> list[str]:
    return sorted(words, key=lambda word: (not word.isdecimal(), int(word) if word.isdecimal() else 0, word))
