"""The Events and log lines about a node's cards, its kubelet, and its pods' records."""

from __future__ import annotations

import logging

from gcushare.core.cards import SERVES_MEMORY, Health, Inventory, InventoryCard
from gcushare.core.wording import counted, index_text, some_names
from gcushare.device_plugin.node.inventory import MAX_NAMES, Offer
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.api_server import Announcer
from gcushare.vendors.neighbours import explain_foreign_id
from gcushare.wire.kubernetes_versions import most_quick_units

logger = logging.getLogger(__name__)


class NodeEvents:
    """Reports what changed since the last report, each change once.

    ``foreign`` are the pods and containers that hold ids of another plugin.
    """

    def __init__(self, announcer: Announcer, store: PodStore) -> None:
        self._announcer = announcer
        self._store = store
        self.foreign: set[tuple[str, str]] = set()
        self._unknown_cordons: frozenset[str] = frozenset()
        self._many_units: tuple[str, int] | None = None

    def report_correction(self, write: RecordWrite) -> None:
        """Report a record that was damaged or named other cards."""
        cards = index_text(write.cards)
        if write.repaired:
            self._announcer.about_pod(
                write.pod,
                "RecordRepaired",
                f"the record was damaged ({write.repaired}); it was written again: card {cards}",
                warning=True,
            )
        for index, (was, now) in write.exchanged.items():
            self._announcer.about_pod(
                write.pod,
                "CardExchanged",
                f"card {index} of this pod is {now} now, and its record said {was[:80]}: that card was replaced, or "
                "the driver numbers this machine's cards differently since",
                warning=True,
            )
        if write.corrected_from:
            before = index_text(write.corrected_from)
            self._announcer.about_pod(
                write.pod,
                "CardCorrected",
                f"the record said card {before}, the kubelet gave card {cards}; the record was corrected",
                warning=False,
            )
        self._report_not_apart(write)

    def _report_not_apart(self, write: RecordWrite) -> None:
        """Report that the kubelet gave a pod a card of one with which it shares none; the kubelet's word counts."""
        if not (write.corrected_from or write.placed_here):
            return
        for other in self._store.apart_from(write.pod.uid):
            if shared := sorted(set(other.taken_cards).intersection(write.cards)):
                self._announcer.about_pod(
                    write.pod,
                    "NotApart",
                    f"the kubelet gave card {index_text(shared)}, which {other.ref} holds: both have {other.apart} and "
                    "gcushare.io/apart; delete one of them to have it placed again",
                    warning=True,
                )

    def report_changes(self, before: Inventory | None, now: Inventory) -> None:
        """Report cards that came, went, fell ill, recovered, were cordoned or left out."""
        known = {card.uuid: card for card in before.cards} if before is not None else {}
        for card in now.cards:
            was = known.pop(card.uuid, None)
            if was is None and card.health is Health.HEALTHY:
                continue
            if was is None or was.health is not card.health:
                self._announce_health(card)
            if was is not None and was.cordoned != card.cordoned:
                word = "cordoned: no new pods" if card.cordoned else "uncordoned"
                self._announcer.about_node("CardCordon", f"card {card.index} is {word}", warning=False)
        for gone in known.values():
            self._announcer.about_node(
                "CardGone", f"card {gone.index} ({gone.uuid}) is gone or was replaced", warning=True
            )
        known_left_out = before.left_out if before is not None else ()
        for left_out in now.left_out:
            if left_out not in known_left_out:
                self.warn("CardLeftOut", f"card {left_out.index} ({left_out.uuid}) is not offered: {left_out.reason}")

    def _announce_health(self, card: InventoryCard) -> None:
        is_sick = card.health is Health.UNHEALTHY
        reason = "CardUnhealthy" if is_sick else "CardRecovered"
        state = f"unhealthy: {card.reason}" if is_sick else "healthy again"
        text = f"card {card.index} ({card.uuid}) is {state}"
        logger.log(logging.ERROR if is_sick else logging.INFO, "%s", text)
        self._announcer.about_node(reason, text, warning=is_sick)
        for entry in self._store.entries.values():
            if card.index in entry.taken_cards:
                self._announcer.about_pod(entry.ref, reason, text, warning=is_sick)

    def explain_lost_card(self, uid: str) -> None:
        """Post an Event on a pod that was refused because its card went to a pod of the other kind, shared or whole.

        The kubelet's own message says only that no device was healthy.
        """
        entry = self._store.entries.get(uid)
        if entry is None or entry.held:
            return
        other = not entry.is_whole
        for index in sorted(self._store.cards_in_use(whole=other).intersection(entry.promise)):
            use = "is in use as a whole" if other else "is shared"
            pods = some_names(self._store.users_of(index, whole=other), MAX_NAMES) or "a pod of this node"
            self._announcer.about_pod(
                entry.ref,
                "CardInOtherUse",
                f"card {index}, which was chosen for this pod, {use} by {pods}, so the kubelet refused it: "
                "the pod must be created again",
                warning=True,
            )

    def report_foreign_ids(self, shown: KubeletAllocations) -> None:
        """Explain each container that holds ids of another plugin, once."""
        known, self.foreign = self.foreign, {(holding.pod, holding.container) for holding in shown.foreign}
        for holding in shown.foreign:
            if (holding.pod, holding.container) not in known:
                self.warn(
                    "ForeignDeviceIds",
                    f"container {holding.container!r} of pod {holding.pod} holds "
                    f"{counted(holding.ids, 'device id')} such as "
                    f"{holding.example[:60]!r}: {explain_foreign_id(holding.example)}",
                )

    def report_unknown_cordons(self, inventory: Inventory, offer: Offer) -> None:
        """Report names in the admin's annotation that no card has: they may be typing errors."""
        names = {word for card in inventory.cards for word in (str(card.index), card.uuid)}
        known, self._unknown_cordons = self._unknown_cordons, offer.cordoned - names
        if self._unknown_cordons - known:
            words = ", ".join(sorted(self._unknown_cordons))
            self.warn("UnknownCordon", f"{offer.vendor.cordon_annotation} names {words}, and no card is called so")

    def report_kubelet(self, version: str, inventory: Inventory | None) -> None:
        """Warn once of a kubelet that is slow with so many units."""
        most = most_quick_units(version)
        if inventory is None or SERVES_MEMORY not in inventory.modes:
            return
        if most is not None and inventory.total_units > most and (version, inventory.total_units) != self._many_units:
            self._many_units = version, inventory.total_units
            self.warn(
                "ManyUnits",
                f"the kubelet is {version}, and the node has {counted(inventory.total_units, 'unit')}: above {most} it "
                "takes minutes to start pods unless its feature gates ResourceHealthStatus and "
                "ResourceHealthStatusMessage are off; turn both off, or choose a coarser --memory-unit",
            )

    def warn(self, reason: str, message: str) -> None:
        """Log and post a warning about the node."""
        logger.warning("%s %s", reason, message)
        self._announcer.about_node(reason, message, warning=True)
