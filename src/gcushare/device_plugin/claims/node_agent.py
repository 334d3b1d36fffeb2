"""Computes slices and inventory from the cards, cordons and prepared claims."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import SERVES_CLAIMS, Card, Inventory
from gcushare.core.errors import RetryableError
from gcushare.core.log_fields import fields
from gcushare.core.wording import some_names
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims
from gcushare.device_plugin.claims.slice_plan import SlicePlan, order_cards
from gcushare.device_plugin.claims.slice_publisher import SlicePublisher
from gcushare.device_plugin.node.publisher import CardsPublisher
from gcushare.device_plugin.plugin_settings import CardSettings
from gcushare.node.api_server import SliceDrivers
from gcushare.node.cards import offer_card
from gcushare.node.cdi import CdiSpecPublisher
from gcushare.node.node_settings import OtherSystems
from gcushare.vendors.neighbours import describe_others
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.objects import Node

logger = logging.getLogger(__name__)

NO_OTHERS_POLL_S = 300.0
"""Between two lists of the node's slices; every node's driver asks the API server for one."""
_MAX_NAMES = 10


@dataclass(eq=False)
class ClaimsAgent:
    """One vendor's cards of this node; each ``on_...`` records a change and updates all that depends on it.

    ``problem`` says why nothing, or not everything, is offered, and is "" if all is. ``others_poll_s`` is the time
    between two polls of the node's slices while another system is in the way.
    """

    others_poll_s = 10.0

    settings: CardSettings
    plan: SlicePlan
    prepared: PreparedClaims
    publisher: SlicePublisher
    cdi: CdiSpecPublisher
    writer: CardsPublisher
    hold_numbers: Callable[[Mapping[str, Card]], None] = lambda _held: None

    def __post_init__(self) -> None:
        self._cards: CardsSnapshot | None = None
        self._node: Node | None = None
        self._is_node_gone = False
        self._drivers: Collection[str] = ()
        self.inventory: Inventory | None = None
        self.order: tuple[int, ...] = ()
        self.prepared.on_change = self._update

    def on_cards(self, cards: CardsSnapshot) -> None:
        """Use what the source of cards reports."""
        self._cards = cards
        # A claim may be allocated a card at any moment after its slice was published: then its number stays.
        published = self.inventory or self.writer.former
        known = {card.uuid for card in published.cards} if published is not None else set()
        held = self.prepared.numbers()
        listed = {card.index for card in cards.cards if card.uuid in known and card.index not in cards.gone}
        self.hold_numbers({card.uuid: card for card in cards.cards if card.index in held | listed})
        self._update()

    def on_drivers(self, drivers: Collection[str]) -> None:
        """Use which drivers publish ResourceSlices of this node."""
        if drivers != self._drivers:
            self._drivers = drivers
            self._update()

    async def follow_drivers(self, drivers: SliceDrivers, announce: Callable[[str, str], None]) -> None:
        """Read again which other drivers publish slices here, often while one is in the way, until cancelled.

        ``announce`` gets a reason and a message if one is in the way.
        """
        announced = ""
        while True:
            others = self.other_systems
            if others and others != announced:
                announce("OtherSystemServes", others)
            announced = others
            await asyncio.sleep(self.others_poll_s if others else NO_OTHERS_POLL_S)
            self.on_drivers(await drivers.read())

    def node_applied(self, node: Node) -> None:
        """Use the Node's newest state: its uid, its cordons, and what a device plugin offers there."""
        self._node, self._is_node_gone = node, False
        self.writer.node_applied(node)
        self._update()

    def node_deleted(self, name: str) -> None:
        """Wait for it to come back: the kubelet creates its Node again.

        Slices go with the Node that owns them: Kubernetes would delete every new one at once.
        """
        self._is_node_gone = True
        self.publisher.hold()

    @property
    def leaving(self) -> str:
        """Why no claim is given a card any more, and which are left; "" unless the node is to serve resources."""
        if self._node is None or self._node.metadata.labels.get(SERVE_LABEL) == SERVE_CLAIMS:
            return ""
        claims = some_names(sorted(claim.key for claim in self.prepared.claims.values()), _MAX_NAMES)
        return (
            f"the node has no label {SERVE_LABEL}={SERVE_CLAIMS}: its cards are not offered to claims, and are offered "
            f"as resources once the pods of these claims have ended: {claims or 'none is left'}"
        )

    def _offered(self) -> tuple[str, ...]:
        """The resources of these cards that the Node still counts, because a device plugin offers them."""
        if self._node is None:
            return ()
        names = (self.plan.vendor.memory_resource, self.plan.vendor.whole_card_resource)
        return tuple(name for name in names if self._node.status.allocatable.get(name, "0") != "0")

    @property
    def other_systems(self) -> str:
        """Which other systems hand out these cards, and what to do; "" if none does, or the admin allows it."""
        if self.settings.other_systems is OtherSystems.ALLOW or self._node is None:
            return ""
        return describe_others(self.writer.find_neighbours(self._drivers))

    @property
    def problem(self) -> str:
        return self._obstacle or self.leaving

    @property
    def _obstacle(self) -> str:
        """Why no claim can be prepared; "" if allocated ones can, also while the node is to serve resources."""
        if self._cards is None:
            return "the cards were not polled yet"
        if not self._cards.cards:
            return self._cards.problem or "this node has no card"
        if self._node is None:
            return "the Node was not read yet; see the log for the API server's answer"
        if offered := self._offered():
            return (
                f"a device plugin still offers {' and '.join(offered)} on this node: its cards are offered to claims "
                "once the kubelet has dropped that; remove the plugin's pod if it stays"
            )
        return self.other_systems

    def inventory_to_grant(self) -> Inventory:
        """The cards, for a claim that is to be prepared.

        Raises:
            RetryableError: they are not known yet, or another system gives them out too.
        """
        if problem := self._obstacle:
            raise RetryableError(problem)
        assert self.inventory is not None
        return self.inventory

    def _update(self) -> None:
        if self._cards is None or not self._cards.cards:
            return
        self.inventory = self._count(self._cards)
        self.cdi.update_holders(len(self.prepared.claims))
        self.cdi.update(self._cards.listed_in(self.inventory))
        is_taken = bool(self._offered() or self.other_systems or self.leaving)
        if self._node is None or self._is_node_gone:
            return
        held = self.prepared.assignments(self.inventory)
        self.order = order_cards(self.inventory, held, self.settings.card_policy)
        # What a card that a claim holds whole has more since then is offered to no other claim.
        whole = {grant.index: grant.units for each in held for grant in each.grants if grant.whole}
        cards = tuple(structs.replace(c, units=min(c.units, whole.get(c.index, c.units))) for c in self.inventory.cards)
        offered = replace(self.inventory, cards=cards)
        self.publisher.publish(self.plan.build(offered, () if is_taken else self.order), self._node.metadata.uid)
        if not is_taken:
            # Before, the plugin's own inventory says in which unit its pods hold memory.
            self.writer.publish(self.inventory)

    def _count(self, cards: CardsSnapshot) -> Inventory:
        unit, cordoned = self.settings.claims_unit, self.writer.cordoned
        offered = tuple(
            offer_card(card, unit, reserve=self.settings.reserve, cordoned=cordoned) for card in cards.cards
        )
        before = {card.index: card for card in self.inventory.cards} if self.inventory else {}
        for card in offered:
            if card.index in before and before[card.index].cordoned != card.cordoned:
                logger.info("card %s %s", "cordoned" if card.cordoned else "uncordoned", fields(card=card.index))
        return Inventory(unit=unit, cards=offered, driver=cards.driver, left_out=cards.left_out, modes=(SERVES_CLAIMS,))
