"""Invariants of every write and every step. ``settled`` has those that hold in calm and at the end."""

from __future__ import annotations

from gcushare.core.assignments import Assignment, CardGrant
from gcushare.core.cards import Inventory
from gcushare.core.errors import GcushareError
from gcushare.wire.nodes import decode_inventory
from gcushare.wire.objects import POD
from gcushare.wire.pods import is_finished, pod_assignment
from gcushare_playground.apiserver.storage import Change, Revision
from gcushare_playground.scheduler.extender import FilterAnswer
from simulation.cast import Cast
from simulation.containers import Containers
from simulation.kubelet import Kubelet
from simulation.people import FORGERS, pods_of_users
from simulation.programs import ExtenderReplica
from simulation.store import DELETED
from simulation.world import ClusterWorld

FRESH_S = 6.0
"""The state that a Binding is based on may be older than its arrival by a bind's own duration, and a little."""

CardKey = tuple[str, int]
Picture = dict[str, tuple[str, tuple[int, ...]]]
"""By the pods' names: their nodes, empty for those that wait, and the cards of their records."""


class Invariants:
    """Checks everyone in a world and records violations."""

    def __init__(self, world: ClusterWorld, cast: Cast) -> None:
        self._world = world
        self._cast = cast
        self.held: dict[str, Assignment] = {}
        """The pods' records by uid, from the API server."""
        self.on_card: dict[CardKey, dict[str, CardGrant]] = {}
        """The same by card."""
        self._excused: dict[CardKey, tuple[int, float]] = {}
        """Cards whose figures were not changed by the extender: the version and the time."""
        self._seen: dict[tuple[str, int], dict[str, str]] = {}
        """By replica and start: the version up to which it had followed each kind of object, at the latest write at
        which it had a version. A reflector has none while it lists again, although its view stays."""
        self._elected: dict[str, int] = {}
        """The version at which a replica became the Lease's holder, by its name."""
        self._led_from: dict[tuple[str, int], int] = {}
        """The same by name and start, once it leads: it must know the state at that version."""
        self.sizes: dict[str, dict[int, int]] = {}
        """Units of each card by node, from the inventories."""
        self.lost: set[str] = set()
        """Pods whose ids a kubelet forgot with its checkpoint."""
        self.waiting_since_s: dict[str, float] = {}
        self._corrections: dict[str, list[tuple[CardGrant, ...]]] = {}
        """A plugin's corrections of a pod's record since another program's last write, by uid."""

    # At each write

    def take(self, change: Change) -> None:
        """Check after a write."""
        self._note_seen()
        if change.collection == "pods":
            self._take_pod(change)
        elif change.collection == "nodes":
            self._take_node(change)
        elif change.collection == "leases":
            self._take_lease(change)

    def _note_seen(self) -> None:
        for replica in self._cast.extenders:
            if replica.is_up:
                watches, seen = replica.app.watches, self._seen.setdefault((replica.name, replica.starts), {})
                if watches.pods.version:
                    seen["pods"] = watches.pods.version
                if watches.nodes.version:
                    seen["nodes"] = watches.nodes.version

    def _take_lease(self, change: Change) -> None:
        before = change.previous.obj["spec"].get("holderIdentity") if change.previous is not None else None
        if change.revision.obj["spec"].get("holderIdentity") != before:
            self._elected[change.by] = change.version

    def _take_node(self, change: Change) -> None:
        inventory, name = self._inventory_of(change.revision), change.revision.key[1]
        if inventory is None:
            if change.by in FORGERS:
                self.sizes.pop(name, None)  # Who has a node's token may have its memory taken for equal cards.
            return
        before, now = self.sizes.get(name, {}), {card.index: card.units for card in inventory.cards}
        self.sizes[name] = now
        for index in before.keys() | now.keys():
            if before.get(index) != now.get(index):
                self._excuse((name, index), change.version)
        for card in inventory.cards:
            if not card.is_usable or inventory.unrecorded or card.closures:
                self._excuse((name, card.index), change.version)

    def _take_pod(self, change: Change) -> None:
        pod = POD.read(change.revision.raw)
        uid = pod.metadata.uid
        if change.type == DELETED or is_finished(pod):
            self.waiting_since_s.pop(uid, None)
        elif not pod.spec.node_name:
            self.waiting_since_s.setdefault(uid, self._world.loop.now_s)
        before = self.held.get(uid)
        try:
            now = None if change.type == DELETED else pod_assignment(pod, self._world.vendor)
        except GcushareError:
            now = None
        if change.type == DELETED:
            self._corrections.pop(uid, None)
        if before is not None:
            self._count(before, -1)
        if now is not None:
            self._count(now, +1)
            self.held[uid] = now
        else:
            self.held.pop(uid, None)
        if change.by in FORGERS:
            for each in (before, now):
                if each is not None:
                    for grant in each.grants:
                        self._excuse((each.node, grant.index), change.version)
        was_bound = change.previous is not None and bool(change.previous.obj["spec"].get("nodeName"))
        if was_bound and change.type != DELETED:
            self._check_correction(change, before, now)
        if now is not None and not was_bound:
            self.waiting_since_s.pop(uid, None)
            self._check_binding(now, change)
        elif before is not None and now is not None and before.grants != now.grants:
            for grant in (*before.grants, *now.grants):
                self._excuse((now.node, grant.index), change.version)
        elif before is not None and now is None and change.by == "a user" and change.type != DELETED:
            for grant in before.grants:
                self._excuse((before.node, grant.index), change.version)

    def _check_correction(self, change: Change, before: Assignment | None, now: Assignment | None) -> None:
        """Check that no plugin writes the same record for the third time: then it corrects its own records.

        Where the kubelet knows no more of a pod that runs, no one can know better than its record. What is kept for a
        pod that waits may change as often as others are admitted.
        """
        uid = change.revision.uid
        grants_before, grants = (each.grants if each is not None else () for each in (before, now))
        if grants_before == grants:
            return
        if not change.by.startswith("plugin/"):
            self._corrections.pop(uid, None)
            return
        if before is not None and before.assigned and uid in self.lost:
            kubelet = self._cast.kubelets[before.node]
            if not kubelet.units_held(uid) and not kubelet.whole_cards_held(uid):
                self._world.fail(
                    "a correct record is left alone",
                    f"{change.by} changes that of {change.revision.key[1]}, which runs and which the kubelet forgot",
                )
        if now is not None and not now.assigned:
            return
        written = self._corrections.setdefault(uid, [])
        written.append(grants)
        if written.count(grants) > 2:
            words = f"cards {[each.index for each in grants]}" if grants else "no cards"
            self._world.fail(
                "a correct record is left alone",
                f"{change.by} records {words} of {change.revision.key[1]} for the third time",
            )

    def _excuse(self, key: CardKey, version: int) -> None:
        self._excused[key] = (version, self._world.loop.now_s)

    def _count(self, assignment: Assignment, sign: int) -> None:
        for grant in assignment.grants:
            grants = self.on_card.setdefault((assignment.node, grant.index), {})
            if sign > 0:
                grants[assignment.pod.uid] = grant
            else:
                grants.pop(assignment.pod.uid, None)

    def units(self, key: CardKey, size: int) -> int:
        """The units that the records put on a card. A pod that holds it whole has all of them, whatever it records."""
        return sum(size if grant.whole else grant.units for grant in self.on_card.get(key, {}).values())

    def _check_binding(self, bound: Assignment, change: Change) -> None:
        """A Binding must not exceed a card, nor join pods kept apart, given the state that its sender must know."""
        for grant in bound.grants:
            key = (bound.node, grant.index)
            others = [self.held[uid] for uid in self.on_card.get(key, {}) if uid != bound.pod.uid]
            joined = [str(each.pod) for each in others if bound.apart is not None and each.apart == bound.apart]
            if joined and not self._is_excused(key, change.by):
                words = f"{change.by} bound {bound.pod} to card {grant.index} of {bound.node}, which {joined} has"
                self._world.fail("pods that are kept apart share no card", f"{words}: all are of {bound.apart}")
            if bound.node not in self.sizes:
                continue
            size = self.sizes[bound.node].get(grant.index, 0)
            if self.units(key, size) <= size or self._is_excused(key, change.by):
                continue
            held = ", ".join(
                f"{each.pod.name} {mine.units}"
                for each in self.held.values()
                if each.node == bound.node
                for mine in each.grants
                if mine.index == grant.index
            )
            self._world.fail(
                "recorded units of a card are never above its size",
                f"{change.by} bound {bound.pod} to card {grant.index} of {bound.node}, which has {size} units: {held}",
            )

    def _is_excused(self, key: CardKey, by: str) -> bool:
        version, at_s = self._excused.get(key, (0, -1e9))
        if at_s > self._world.loop.now_s - FRESH_S:
            return True
        sender = next((each for each in self._cast.extenders if each.name == by), None)
        if sender is None or not sender.is_up:
            return sender is None
        start = (by, sender.starts)
        seen = self._seen.get(start, {})
        known = max(self._led_from.get(start, 0), min(int(seen.get(plural, "0")) for plural in ("pods", "nodes")))
        return version > known

    # At each step

    def check_one_leader(self, replica: ExtenderReplica) -> None:
        """Check that no two replicas serve. Called when one begins to serve.

        The last leader stays recorded until another one begins, so that a leader that pauses is not checked again.
        """
        self._led_from[replica.name, replica.starts] = self._elected.get(replica.name, 0)
        for other in self._cast.extenders:
            other.leads_since_checked = other is replica
            if other is not replica and other.is_up and other.app.leadership.is_leader:
                self._world.fail("one leader serves", f"{replica.name} and {other.name} lead at the same time")

    def check_reasons(self, pod: str, names: list[str], answer: FilterAnswer) -> None:
        """Check that filter gives a reason for each node that it refuses."""
        failed = {**answer.failed, **answer.unresolvable}
        missing = [name for name in names if not failed.get(name)]
        if missing:
            self._world.fail("every refused pod has a reason", f"{pod}: filter says nothing of {missing}")

    def check_limits(self, limited: Containers, uid: str) -> None:
        """Check the limits of a pod with running containers."""
        kubelet, unit = limited.kubelet, self._cast.unit_of(limited.kubelet.node)
        if uid in self.lost:
            return
        held = limited.slots_held(uid)
        for card in sorted({card for units in limited.running[uid].values() for card in units}):
            hard = limited.groups.limit_of(limited.group_of(uid), card)
            if hard is None:
                self._world.fail("no process runs without its limit", f"pod {uid} on card {card} of {kubelet.node}")
            elif unit is not None and card in held and hard > unit.bytes_of(held[card]):
                self._world.fail(
                    "no limit is above what the ledger counts",
                    f"pod {uid} has {held[card]} units of card {card} of {kubelet.node}, and a limit of {hard} bytes",
                )

    def note_lost_checkpoint(self, kubelet: Kubelet) -> None:
        """Record that a kubelet lost its checkpoint, so that it does not know what its pods hold."""
        self.lost |= kubelet.devices.holders()

    def picture(self) -> Picture:
        """The pods' state according to the API server."""
        found: Picture = {}
        for pod in pods_of_users(self._world).values():
            held = self.held.get(pod.uid)
            cards = tuple(grant.index for grant in held.grants) if held is not None else ()
            found[pod.key[1]] = (pod.obj["spec"].get("nodeName", ""), cards)
        return found

    def _inventory_of(self, node: Revision) -> Inventory | None:
        text = node.obj["metadata"].get("annotations", {}).get(self._world.vendor.inventory_annotation)
        try:
            return None if text is None else decode_inventory(text)
        except GcushareError:
            return None
