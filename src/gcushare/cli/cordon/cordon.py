"""``gcushare cordon-card`` and ``uncordon-card``: finds the card and writes the Node's annotation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gcushare.cli.cordon.cordon_settings import CordonSettings
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.reader import naming_node
from gcushare.core.cards import Card, Inventory
from gcushare.core.errors import ConflictError, Refused, RemoteContractError, RetryableError
from gcushare.core.log_fields import escape
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Precondition, annotations_patch
from gcushare.kube.resources import NODES
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.vendors import VENDORS, VENDORS_BY_NAME, Vendor
from gcushare.wire.nodes import decode_inventory, is_named, parse_card_names

ATTEMPTS = 5
"""A busy Node is written every few seconds, so five collisions in a row do not happen by chance."""


async def set_cordon(request: CordonRequest, client: KubeClient) -> str:
    """Carry a request out; returns the resulting state as text. Repeatable.

    Raises:
        NotFoundError: there is no such node.
        Refused, RemoteContractError: as ``decide_annotation``.
        RetryableError: others kept writing the Node in between.
        ForbiddenError: the caller may not read or change Nodes.
    """
    for _ in range(ATTEMPTS):
        with naming_node(request.node):
            meta = (await client.get(NODES, request.node)).metadata
        annotations, message = decide_annotation(request, meta.annotations)
        if not annotations:
            return message
        unchanged = Precondition(meta.uid or None, meta.resource_version)
        try:
            await client.patch(NODES, meta.name, annotations_patch(annotations, unchanged))
        except ConflictError:
            continue
        return message
    raise RetryableError(f"node {request.node} was changed by others {ATTEMPTS} times in a row; nothing was written")


def _run(settings: CordonSettings, process: ProcessContext, *, is_cordon: bool) -> int:
    vendor = VENDORS_BY_NAME[settings.vendor] if settings.vendor is not None else None
    request = CordonRequest(settings.node, settings.card.strip(), is_cordon, vendor)

    async def work() -> str:
        async with open_cluster(settings.kube, process.environ, program="gcushare-cordon-card") as client:
            return await set_cordon(request, client)

    process.stdout.write(f"{escape(asyncio.run(work()))}\n")
    return DONE


cordon, uncordon = partial(_run, is_cordon=True), partial(_run, is_cordon=False)
"""Run ``gcushare cordon-card`` or ``uncordon-card``; they return the exit code."""


@dataclass(frozen=True, slots=True)
class CordonRequest:
    """What the admin asked for: ``card`` is an index or a uuid, ``vendor`` None means any."""

    node: str
    card: str
    is_cordon: bool
    vendor: Vendor | None = None


def decide_annotation(request: CordonRequest, annotations: Mapping[str, str]) -> tuple[dict[str, str | None], str]:
    """Decide what to write on a Node with these annotations; returns the change and the resulting state as text.

    The change is one annotation, None to remove it; empty if the state is as requested already.

    Raises:
        Refused: the node shares no cards, has no such card, or two vendors have one; names what there is.
        RemoteContractError: the node's inventory cannot be read.
    """
    vendor, card = _find(request, annotations)
    words = parse_card_names(annotations.get(vendor.cordon_annotation, ""))
    # The card may be there by its index and by its uuid.
    names = {request.card} if card is None else {request.card, str(card.index), card.uuid}
    where = f"card {request.card if card is None else _describe(card)} of node {request.node}"
    if bool(words & names) == request.is_cordon:
        return {}, f"{where} is {'cordoned already' if request.is_cordon else 'not cordoned'}"
    # By its uuid: its number may be another card's after a reboot.
    name = request.card if card is None or not card.uuid else card.uuid
    after = words | {name} if request.is_cordon else words - names
    ordered = sorted(after, key=lambda word: (not word.isdecimal(), int(word) if word.isdecimal() else 0, word))
    effect = "cordoned: no new pods, running ones stay" if request.is_cordon else "uncordoned"
    return {vendor.cordon_annotation: ",".join(ordered) or None}, f"{where} {effect}"


def _find(request: CordonRequest, annotations: Mapping[str, str]) -> tuple[Vendor, Card | None]:
    """Find the card and its vendor; the card is None if only the annotation still names it."""
    vendors = [request.vendor] if request.vendor is not None else list(VENDORS)
    offered = {vendor.name: _inventory(vendor, annotations, request.node) for vendor in vendors}
    found = [
        (vendor, offer)
        for vendor in vendors
        if (inventory := offered[vendor.name]) is not None
        for offer in inventory.cards
        if is_named(offer, frozenset((request.card,)))
    ]
    if len(found) > 1:
        names = " and ".join(vendor.name for vendor, _ in found)
        raise Refused(
            f"node {request.node} has a card {request.card!r} of {names}: say which with --vendor, or give its uuid"
        )
    if found:
        return found[0]
    if not request.is_cordon:
        # A card that is gone, or a word that was written by hand, can still be taken back.
        for vendor in vendors:
            if request.card in parse_card_names(annotations.get(vendor.cordon_annotation, "")):
                return vendor, None
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
    cards = ", ".join(_describe(offer) for inventory in inventories for offer in inventory.cards)
    return f"node {request.node} has no card {request.card!r}; its cards are {cards or 'none'}"


def _describe(card: Card) -> str:
    return f"{card.index} ({card.uuid})" if card.uuid else str(card.index)
