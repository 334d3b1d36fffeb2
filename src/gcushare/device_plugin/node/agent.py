"""Turns changes on the node into device lists for the kubelet, records on pods, and Events.

Each ``on_`` method handles one change of cards, Node, pods or the kubelet's allocations, and updates everything that
follows from it. All are synchronous and run on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import msgspec

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Health, Inventory, LeftOutCard
from gcushare.core.errors import Refused
from gcushare.core.log_fields import fields
from gcushare.core.units import MemoryUnit, parse_memory_unit
from gcushare.core.wording import index_text, some_names
from gcushare.device_plugin.kubelet.device_list import HeldIds
from gcushare.device_plugin.node.events import NodeEvents
from gcushare.device_plugin.node.inventory import (
    MAX_NAMES,
    Holders,
    Offer,
    check_unit_change,
    is_same_unit,
    keep_inventory,
    plan_inventory,
)
from gcushare.device_plugin.node.parts import Dependencies, Parts
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.unrecorded import closures_of
from gcushare.node.grant_form import follow_cards
from gcushare.node.node_settings import AUTO_UNIT
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.kubernetes_versions import most_quick_units
from gcushare.wire.objects import Node, Pod
from gcushare.wire.pods import has_stopped, is_finished

logger = logging.getLogger(__name__)

NO_CARDS: frozenset[int] = frozenset()


class NodeAgent:
    """One vendor's cards of this node, and the parts that serve them.

    ``offered`` is set once a list may be sent to the kubelet.
    """

    def __init__(self, settings: PluginSettings, dependencies: Dependencies) -> None:
        self._clock = dependencies.clock
        self._hold = dependencies.hold_numbers
        self._follows_cards = follow_cards(settings.cards.vendor, settings.kubelet.device_list_strategy)
        cards = settings.cards
        self._offer = Offer(
            vendor=cards.vendor,
            unit=cards.memory_unit or cards.vendor.default_unit,
            reserve=cards.reserve,
            mode=cards.mode,
            message_limit_bytes=settings.kubelet.kubelet_message_limit,
        )
        self.parts = parts = Parts(
            settings,
            dependencies,
            on_allocate=self.on_allocate,
            on_kubelet_read=self.on_kubelet_read,
            on_record_written=self.on_record_written,
        )
        self._cards: CardsSnapshot | None = None
        self._allocations: KubeletAllocations | None = None
        self._held = HeldIds(parts.store)
        self._events = NodeEvents(dependencies.announcer, parts.store)
        self._former_unit: str | None = None
        """The unit of the plugin before, until it is ours or no pod can hold units of it."""
        self._has_allocated = False
        self.inventory: Inventory | None = None
        self.problem = "the cards were not read yet"
        self.offered = asyncio.Event()

    def on_cards_change(self, cards: CardsSnapshot) -> None:
        """Use the newest state of the cards."""
        self._cards = cards
        self._replan()

    def numbers_unknown(self, problem: str) -> None:
        """Offer an empty list: which card the numbers in pods' device ids mean cannot be read.

        A kubelet that could not read its checkpoint either knows no plugin. It writes the file again when it gets a
        list, and before that it would run pods without the devices that they ask for.
        """
        self._refuse("CardNumbersUnknown", problem)
        self.offered.set()

    def _hold_numbers(self) -> None:
        """Keep the numbers of the cards that pods have; of all cards while a call for one of them may come.

        The source of cards reports what changes by it.
        """
        if self._cards is None or not self._follows_cards:
            return
        cards = {card.index: card for card in self._cards.cards}
        wanted = self.parts.store.cards_wanted() if self.parts.store.is_settled else cards.keys()
        self._hold({card.uuid: card for index, card in cards.items() if index in wanted})

    def node_applied(self, node: Node) -> None:
        """Use the Node's newest state: its cordons, and whether it still has the inventory as published."""
        is_first = not self.parts.publisher.has_seen_node
        unit = self.parts.publisher.published_unit()
        self.parts.publisher.node_applied(node)
        is_due = self.parts.publisher.published_unit() != unit
        former = self.parts.publisher.former
        if is_first:
            self.parts.store.gone.restore(former.cards if former is not None else (), self._clock.now().timestamp())
            self.parts.reconciler.check_soon()
        if is_first and former is not None:
            self._former_unit = former.unit.name
            self.parts.publisher.withdraw()
        if self.parts.publisher.cordoned != self._offer.cordoned:
            self._offer = replace(self._offer, cordoned=self.parts.publisher.cordoned)
            is_due = True
        if (is_leaving := node.metadata.labels.get(SERVE_LABEL) == SERVE_CLAIMS) != self._offer.is_leaving:
            self._offer = replace(self._offer, is_leaving=is_leaving)
            is_due = True
            logger.info("%s", self.leaving or "the node serves resources again")
        if (most := most_quick_units(self.parts.publisher.kubelet_version)) != self._offer.most_units:
            self._offer = replace(self._offer, most_units=most)
            is_due = True
        if is_due:
            self._replan()
        self._events.report_kubelet(self.parts.publisher.kubelet_version, self.inventory)

    def node_deleted(self, name: str) -> None:
        """Wait for it to come back: the kubelet creates its Node again."""

    def pod_applied(self, pod: Pod) -> None:
        """Use the newest state of a pod of this node."""
        if is_finished(pod):
            self._events.explain_lost_card(pod.metadata.uid)
        if self.parts.store.pod_applied(pod):
            self.parts.reconciler.check_soon()
        self.parts.reconciler.writer.pod_applied(pod.metadata.uid)
        self._pods_changed()

    def pod_deleted(self, pod: Pod) -> None:
        """Remove a deleted pod of this node; ``pod`` is its last state."""
        if self.parts.store.pod_deleted(pod.metadata.uid, is_over=has_stopped(pod)):
            self.parts.reconciler.check_soon()
        self._pods_changed()

    def pods_retained(self, uids: frozenset[str]) -> None:
        """Remove all pods of this node but these, which are all of a full list."""
        self.parts.store.pods_retained(uids)
        self.parts.reconciler.check_soon()
        self._pods_changed()

    def on_allocate(self) -> None:
        """Close a card that is shared now to pods that want it whole, and the other way round.

        It does not wait until the kubelet shows the allocation, for until then the kubelet goes on offering the card.
        """
        self._has_allocated = True
        self.parts.reconciler.check_soon()
        if self.inventory is not None:
            self._update_lists(self.inventory)

    def on_record_written(self, write: RecordWrite) -> None:
        """Post an Event about a correction."""
        self._events.report_correction(write)

    def on_kubelet_read(self, allocations: KubeletAllocations) -> None:
        """Use the kubelet's newest allocations."""
        self._allocations = allocations
        self.parts.pods.notify()
        self._events.report_foreign_ids(allocations)
        self.parts.cdi.update_holders(len(allocations.pods))
        self._hold_numbers()
        self._replan()

    def _pods_changed(self) -> None:
        self.parts.pods.notify()
        self.parts.reconciler.writer.write_soon()
        self._hold_numbers()
        if self.inventory is not None:
            # The cards of an ended pod are free at once; the kubelet may show it until it admits the next pod.
            self._update_lists(self.inventory)
            self._publish(self.inventory)

    def _publish(self, inventory: Inventory) -> None:
        """Publish the inventory, unless pods may hold the unit of before, which the one on the Node still says.

        Not before the pods are known either: of an unknown one podresources does not show what init containers hold.
        """
        if self._former_unit is not None or not self.parts.store.is_listed:
            return
        full = self.describe(inventory)
        if full != self.parts.publisher.wanted:
            self.parts.publisher.publish(full)

    def describe(self, inventory: Inventory) -> Inventory:
        """Add to the inventory what no pod's record says: other holders of cards, and cards closed for deleted pods."""
        gone = self.parts.store.gone.pods
        cards = (
            msgspec.structs.replace(c, closures=closures_of(c.index, gone, inventory.modes)) for c in inventory.cards
        )
        unrecorded = self.parts.store.unrecorded.lasting(self._clock.monotonic())
        return replace(inventory, cards=tuple(cards), unrecorded=unrecorded)

    def _replan(self) -> None:
        if self._cards is None:
            return
        if not self._cards.cards:  # There never was one: a card that disappears stays listed, unhealthy.
            self._refuse("NoCards", self._cards.problem)
            return
        problem = ""
        try:
            inventory = self._plan(self._cards)
        except Refused as refusal:
            if self.inventory is None:
                self._refuse("MemoryUnitRefused", str(refusal))
                self._keep_correcting_records(self._cards)
                return
            # Cards that are offered already stay: their pods run, and their health must still be reported.
            inventory = keep_inventory(self.inventory, self._cards, self._offer)
            indexes, unit = index_text(card.index for card in inventory.cards), inventory.unit.name
            offered = f"stay offered in units of {unit!r}, no others" if self._former_unit is None else "take no pods"
            problem = f"{refusal}; until then the cards of before ({indexes}) {offered}"
        before, self.inventory = self.inventory, inventory
        if self._update_lists(inventory) or before != inventory:
            self.parts.allocator.set_inventory(inventory)
            self.parts.whole_allocator.set_inventory(inventory)
            self.parts.reconciler.writer.set_inventory(inventory)
            self._events.report_changes(before, inventory)
        self._events.report_unknown_cordons(inventory, self._offer)
        self._events.report_kubelet(self.parts.publisher.kubelet_version, self.inventory)
        self._publish(inventory)
        if problem:
            self._refuse("MemoryUnitRefused", problem)
        else:
            self.problem = ""
        if self.parts.cdi.update(self._cards.listed_in(inventory)):
            self.parts.announcer.about_node("CdiSpecFailed", self.parts.cdi.problem, warning=True)
        self.offered.set()

    @property
    def leaving(self) -> str:
        """Why no card takes new pods, and what holds cards still; "" unless the node is to serve claims."""
        if not self._offer.is_leaving:
            return ""
        return (
            f"the node has the label {SERVE_LABEL}={SERVE_CLAIMS}: its cards take no new pods, and are offered to "
            f"claims once these pods have ended: {some_names(self.holders(), MAX_NAMES) or 'none is left'}"
        )

    def holders(self) -> list[str]:
        """The pods that have cards, or were bound to get them, also those that another plugin gave ids."""
        return sorted({*self.parts.store.holders(), *(pod for pod, _ in self._events.foreign)})

    @property
    def foreign_containers(self) -> int:
        """How many containers of this node hold ids of another plugin's layout."""
        return len(self._events.foreign)

    def _plan(self, cards: CardsSnapshot) -> Inventory:
        """Plan all cards, or all but those whose units do not fit next to the numbers that pods hold.

        Such a card has a high number, or a lost one is listed next to it. A lost one that no pod holds goes first.

        Raises:
            Refused: as ``plan_inventory`` and ``check_unit_change``.
        """
        try:
            return self._plan_all(cards)
        except Refused as refusal:
            wanted = self.parts.store.cards_wanted()
            unheld = [card for card in cards.cards if card.index not in wanted]
            free = unheld if cards.gone else [card for card in unheld if card.minor is not None]
            if not free:
                raise
            waiting = max(free, key=lambda card: (card.index in cards.gone, card.minor is not None, card.index))
            left_out = cards.left_out
            if waiting.index not in cards.gone:
                reason = f"it waits until pods give back the numbers of other cards: {refusal}"
                left_out += (LeftOutCard(index=waiting.minor_number, uuid=waiting.uuid, reason=reason),)
            others = tuple(card for card in cards.cards if card is not waiting)
            return self._plan(replace(cards, cards=others, left_out=left_out))

    def _plan_all(self, cards: CardsSnapshot) -> Inventory:
        offered = self.inventory.unit.name if self.inventory is not None else None
        before = self._former_unit or offered
        current = offered if self._has_allocated else before
        offer, inventory = self._offer, None
        is_chosen = offer.unit == AUTO_UNIT and current in offer.vendor.auto_units
        if is_chosen and current is not None and not self._may_choose_again(cards, current):
            # A chosen unit stays while it fits, so that a card that is added or removed does not change it.
            try:
                inventory = plan_inventory(cards, replace(offer, unit=current))
            except Refused:
                logger.info("the unit in use does not fit any more, choosing another %s", fields(unit=current))
        inventory = inventory or plan_inventory(cards, offer)
        check_unit_change(before, inventory.unit.name, self._holders)
        self._former_unit = None
        return inventory

    def _may_choose_again(self, cards: CardsSnapshot, unit: str) -> bool:
        """Whether this unit makes the kubelet slow, and no pod is on the node's cards, or about to be."""
        most, size = self._offer.most_units, parse_memory_unit(unit)
        is_slow = most is not None and sum(size.units_in(card.memory_bytes) for card in cards.cards) > most
        pods = self._holders.pods
        return is_slow and pods is not None and not pods and not self.parts.store.entries

    @property
    def _holders(self) -> Holders:
        """The pods that hold units, as far as the kubelet was read."""
        shown = self._allocations
        return Holders(shown.memory if shown is not None else None, self.parts.reconciler.problem)

    def _update_lists(self, inventory: Inventory) -> bool:
        """Update the kubelet's lists; False if nothing changed. A card closes only once its held ids are known.

        A cordoned or sick card is closed to all pods, a card in whole use to memory, a card in shared use to whole-card
        pods. While pods may hold another unit, or the Node names one, all cards are closed as by a cordon. A sick card
        does not wait: as long as nothing was read, none of its ids is healthy.
        """
        shown, store = self._allocations, self.parts.store
        held: dict[int, frozenset[str]] = {}
        closed_whole = held_whole = NO_CARDS
        if shown is not None:
            indexes = frozenset(inventory.units_by_card)
            is_closed = self._former_unit is not None or not self._is_counted_in(inventory.unit)
            cordoned = frozenset(card.index for card in inventory.cards if card.cordoned or is_closed)
            shared, whole = store.cards_in_use(whole=False) & indexes, store.cards_in_use(whole=True) & indexes
            sick = frozenset(card.index for card in inventory.cards if card.health is Health.UNHEALTHY)
            held = self._held.find_healthy(shown, inventory.units_by_card, cordoned | whole, sick)
            # What a pod that was deleted by force held is held no more: the kubelet has the id free again.
            held_whole = shown.cards(whole=True, without=store.ended) | (whole - store.gone.cards(whole=True))
            closed_whole = cordoned | shared
        is_changed = False
        if SERVES_MEMORY in inventory.modes:
            is_changed = self.parts.memory_devices.offer(inventory, held)
        if SERVES_WHOLE in inventory.modes:
            is_changed |= self.parts.whole_devices.offer(inventory, closed=closed_whole, held=held_whole)
        return is_changed

    def _is_counted_in(self, unit: MemoryUnit) -> bool:
        """Whether the Node names no other unit.

        The extender counts in the Node's unit. Memory that is given in another one before the Node names it would be
        counted wrongly, and a plugin that starts then would read it as units of the old one.
        """
        published = self.parts.publisher.published_unit()
        return published is None or is_same_unit(published, unit.name)

    def _keep_correcting_records(self, cards: CardsSnapshot) -> None:
        """Keep correcting the records of running pods, in the unit of their ids, while no card is offered."""
        unit = self._former_unit
        if unit is None:
            return
        try:
            inventory = plan_inventory(cards, replace(self._offer, unit=unit))
        except Refused as refusal:
            logger.debug("records are not corrected either %s", fields(unit=unit, reason=refusal))
            return
        self.parts.reconciler.writer.set_inventory(inventory)

    def _refuse(self, reason: str, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            logger.error("cards cannot be offered as they should %s", fields(reason=reason, problem=problem))
        self.parts.announcer.about_node(reason, problem, warning=True)
