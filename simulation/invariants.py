"""What must hold: after every write and every step at once, after calm in full, and at the end nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gcushare.core.cards import Inventory
from gcushare.core.errors import GcushareError
from gcushare.core.nodes import Assignment, CardGrant
from gcushare.device_plugin.choices import Mode
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.request import Policies, RejectedRequest
from gcushare.wire.annotations.inventory import decode_inventory
from gcushare.wire.objects import NODE, POD
from gcushare.wire.pods import is_finished, pod_assignment
from simulation.store import DELETED, Change, Stored

if TYPE_CHECKING:
    from simulation.kubelet import Kubelet
    from simulation.programs import ExtenderReplica
    from simulation.world import World

BOUND_WITHIN_S = 90.0
"""In calm, a pod that fits is bound within this."""
FRESH_S = 6.0
"""What a Binding was decided on may be older than its arrival by a bind's own time, and a little."""

CardKey = tuple[str, int]
Picture = dict[str, tuple[str, tuple[int, ...]]]
"""By the pods' names: their nodes, empty for those that wait, and the cards of their records."""


class Invariants:
    """Checks a world; what does not hold becomes a violation of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[str, Assignment] = {}
        """What the pods' records say, by uid: the API server's truth."""
        self._on_card: dict[CardKey, dict[str, CardGrant]] = {}
        self._excused: dict[CardKey, tuple[int, float]] = {}
        """Cards whose figures changed by another's hand than the extender's: the version, and when."""
        self._seen: dict[tuple[str, int, str], int] = {}
        """The version up to which a replica had followed a kind of object, by its name and start: at the latest write
        at which it knew one, for it forgets it while it lists again, and what it believes stays."""
        self._sizes: dict[str, dict[int, int]] = {}
        self._shrunk: set[CardKey] = set()
        self._lost: set[str] = set()
        """Pods whose ids a kubelet forgot with its checkpoint."""
        self._waiting_since_s: dict[str, float] = {}

    # At each write

    def take(self, change: Change) -> None:
        """A write was done."""
        self._note_seen()
        if change.new.plural == "pods":
            self._take_pod(change)
        elif change.new.plural == "nodes":
            self._take_node(change)

    def _note_seen(self) -> None:
        for replica in self._world.extenders:
            if replica.is_up:
                followers = replica.app.followers
                for plural, version in (("pods", followers.pods.version), ("nodes", followers.nodes.version)):
                    if version:
                        self._seen[replica.name, replica.starts, plural] = int(version)

    def _take_node(self, change: Change) -> None:
        inventory = self._inventory_of(change.new)
        if inventory is None:
            return
        name = change.new.key[1]
        before, now = self._sizes.get(name, {}), {card.index: card.units for card in inventory.cards}
        self._sizes[name] = now
        for index in before.keys() | now.keys():
            if before.get(index) != now.get(index):
                self._excuse((name, index), change.version)
        for card in inventory.cards:
            if not card.is_usable or inventory.unrecorded or card.closures:
                self._excuse((name, card.index), change.version)

    def _take_pod(self, change: Change) -> None:
        pod = POD.read(change.new.raw)
        uid = pod.metadata.uid
        if change.kind == DELETED or is_finished(pod):
            self._waiting_since_s.pop(uid, None)
        elif not pod.spec.node_name:
            self._waiting_since_s.setdefault(uid, self._world.loop.now_s)
        before = self._held.get(uid)
        try:
            now = None if change.kind == DELETED else pod_assignment(pod, self._world.vendor)
        except GcushareError:
            now = None
        if before is not None:
            self._count(before, -1)
        if now is not None:
            self._count(now, +1)
            self._held[uid] = now
        else:
            self._held.pop(uid, None)
        was_bound = change.old is not None and bool(change.old.doc["spec"].get("nodeName"))
        if now is not None and not was_bound:
            self._waiting_since_s.pop(uid, None)
            self._check_binding(now, change)
        elif before is not None and now is not None and before.grants != now.grants:
            for grant in (*before.grants, *now.grants):
                self._excuse((now.node, grant.index), change.version)
        elif before is not None and now is None and change.by == "a user" and change.kind != DELETED:
            for grant in before.grants:
                self._excuse((before.node, grant.index), change.version)

    def _excuse(self, key: CardKey, version: int) -> None:
        self._excused[key] = (version, self._world.loop.now_s)

    def _count(self, assignment: Assignment, sign: int) -> None:
        for grant in assignment.grants:
            grants = self._on_card.setdefault((assignment.node, grant.index), {})
            if sign > 0:
                grants[assignment.pod.uid] = grant
            else:
                grants.pop(assignment.pod.uid, None)

    def _units(self, key: CardKey, size: int) -> int:
        """What the records put on a card; a pod that has it whole has all of it, whatever its record's figure."""
        return sum(size if grant.whole else grant.units for grant in self._on_card.get(key, {}).values())

    def _check_binding(self, bound: Assignment, change: Change) -> None:
        """A Binding never puts more on a card than it has, by what its sender had to know."""
        for grant in bound.grants:
            key = (bound.node, grant.index)
            size = self._sizes.get(bound.node, {}).get(grant.index, 0)
            if self._units(key, size) <= size or self._is_excused(key, change.by):
                continue
            held = ", ".join(
                f"{each.pod.name} {mine.units}"
                for each in self._held.values()
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
        sender = next((each for each in self._world.extenders if each.name == by), None)
        if sender is None or not sender.is_up:
            return sender is None
        return version > min(self._seen.get((by, sender.starts, plural), 0) for plural in ("pods", "nodes"))

    # At each step

    def check_one_leader(self, replica: ExtenderReplica) -> None:
        """No two replicas may serve."""
        for other in self._world.extenders:
            if other is not replica and other.is_up and other.app.leadership.is_leader:
                self._world.fail("one leader serves", f"{replica.name} and {other.name} lead at the same time")

    def check_reasons(self, pod: Stored, names: list[str], answer: dict[str, Any]) -> None:
        """Each node that filter refuses has a reason."""
        failed = {**(answer.get("FailedNodes") or {}), **(answer.get("FailedAndUnresolvableNodes") or {})}
        missing = [name for name in names if not failed.get(name)]
        if missing:
            self._world.fail("every refused pod has a reason", f"{pod.key[1]}: filter says nothing of {missing}")

    def note_lost_checkpoint(self, kubelet: Kubelet) -> None:
        """A kubelet loses its checkpoint: what its pods hold is not known to it any more."""
        self._lost |= {uid for uid, _, _ in kubelet.devices.held}

    # After calm

    def check_settled(self) -> None:
        """Everything is as it should be."""
        world = self._world
        leaders = [each for each in world.extenders if each.leads]
        if len(leaders) != 1:
            world.fail("one leader serves", f"after calm {len(leaders)} replicas lead")
            return
        truth = self._truth()
        for replica in world.extenders:
            self._check_ledger(replica, truth)
        for kubelet in world.kubelets.values():
            self._check_kubelet(kubelet)
        self._check_sizes()
        self._check_bound(truth)
        self._check_reasons_of_failed()

    def _truth(self) -> VendorState:
        """What an extender would believe that only now read everything."""
        state = VendorState(self._world.vendor, Policies("binpack", "binpack", "close"), monotonic=lambda: 0.0)
        for node in self._world.store.all("nodes").values():
            state.see_node(NODE.read(node.raw))
        for pod in self._world.store.all("pods").values():
            state.see_pod(POD.read(pod.raw))
        return state

    def _check_ledger(self, replica: ExtenderReplica, truth: VendorState) -> None:
        name, ledger = replica.name, replica.state.ledger
        if ledger.reserved:
            self._fail_ledger(f"{name} has reserved for {sorted(ledger.reserved)} since the storm")
        mine = {each.pod.uid: each for each in ledger.assignments()}
        real = {each.pod.uid: each for each in truth.ledger.assignments()}
        for uid in sorted(mine.keys() | real.keys()):
            if mine.get(uid) != real.get(uid):
                self._fail_ledger(f"{name} believes of {uid}: {mine.get(uid)}; the API server says: {real.get(uid)}")
        nodes, others = ledger.nodes, truth.ledger.nodes
        for node in sorted(nodes.keys() | others.keys()):
            if node not in nodes or node not in others or nodes[node].recount() != []:
                self._fail_ledger(f"{name} counts {node} wrongly")

    def _fail_ledger(self, words: str) -> None:
        self._world.fail("the ledger equals the API server's truth within a bounded lag", words)

    def _check_kubelet(self, kubelet: Kubelet) -> None:
        world = self._world
        pods = {each.uid: each for each in world.store.all("pods").values()}
        for uid in sorted({uid for uid, _, _ in kubelet.devices.held}):
            units = world.units_held(kubelet, uid)
            if not units or uid in self._lost:
                continue
            if uid not in pods or pods[uid].doc["status"].get("phase") in ("Succeeded", "Failed"):
                continue  # From the checkpoint; the next admission frees them.
            held = self._held.get(uid)
            recorded = {grant.index for grant in held.grants} if held is not None else set()
            if recorded != units.keys():
                world.fail(
                    "what a kubelet holds is in the ledger",
                    f"{pods[uid].key[1]} holds {units} on {kubelet.node}, and its record says {sorted(recorded)}",
                )

    def _check_sizes(self) -> None:
        """Records settle within the cards, but where cards shrank under their pods or a kubelet lost its checkpoint."""
        world = self._world
        for node, index in sorted(self._on_card):
            size = self._sizes.get(node, {}).get(index)
            units = self._units((node, index), size or 0)
            pods = {uid for uid, each in self._held.items() if each.node == node}
            is_sure = size is not None and not pods & self._lost
            if is_sure and units > (size or 0):
                really = sum(world.units_held(world.kubelets[node], uid).get(index, 0) for uid in pods)
                if really <= (size or 0):
                    world.fail(
                        "recorded units of a card are never above its size",
                        f"after calm card {index} of {node} has {size} units, records say {units}, ids {really}",
                    )

    def _check_bound(self, truth: VendorState) -> None:
        """A pod that fits is bound."""
        world = self._world
        if truth.nominations.leaving or len(truth.nominations):
            return  # Room is being made, or kept.
        pods = {each.uid: each for each in world.store.all("pods").values()}
        for uid, waiting in sorted(truth.waiting.items()):
            since_s = world.loop.now_s - self._waiting_since_s.get(uid, world.loop.now_s)
            if isinstance(waiting, RejectedRequest) or since_s < BOUND_WITHIN_S:
                continue
            for name, node in sorted(truth.ledger.nodes.items()):
                if node.fits(waiting.cards) and world.scheduler._fits(pods[uid], name):
                    world.fail(
                        "a pod that fits is bound within a bound",
                        f"{waiting.pod} has waited for {since_s:.0f} s, and {name} has room for it",
                    )
                    return

    def _check_reasons_of_failed(self) -> None:
        for each in self._world.store.all("pods").values():
            status = each.doc["status"]
            if status.get("reason") == "UnexpectedAdmissionError" and not status.get("message"):
                self._world.fail("every refused pod has a reason", f"{each.key[1]} failed without a message")

    # At the end

    def check_end(self) -> None:
        """Nothing is left of what is gone."""
        world = self._world
        if world.store.all("pods"):
            left = sorted(key[1] for key in world.store.all("pods"))
            world.fail("nothing leaks", f"pods do not end: {left}")
            return
        for replica in world.extenders:
            ledger = replica.state.ledger
            pods = [str(each.pod) for each in ledger.assignments()]
            if pods or replica.state.waiting or replica.state.bound or replica.state.ahead.uids:
                world.fail("nothing leaks", f"{replica.name} still counts {pods}")
            under_way = sum(each.binds.under_way for each in replica.app.services)
            if under_way:
                world.fail("nothing leaks", f"{replica.name} has {under_way} bindings under way")
        for name, plugin in world.plugins.items():
            parts = plugin.app.observed
            if parts.store.pending_allocations or parts.store.held_units():
                world.fail("nothing leaks", f"the plugin of {name} believes that units are held")
        self._check_tasks()

    def _check_tasks(self) -> None:
        """Tasks and streams are those of idle programs."""
        world = self._world
        most = {"extender": 28, "plugin": 24}
        for program in world.programs():
            tasks = program.process.live_tasks()
            if tasks > most[program.name.partition("-")[0].partition("/")[0]]:
                world.fail("nothing leaks", f"{program.name} has {tasks} tasks")
        streams = [owner.name for owner in world.gateway.watches.values()]
        for program in world.programs():
            if streams.count(program.name) > 2:
                world.fail("nothing leaks", f"{program.name} has {streams.count(program.name)} streams open")

    def picture(self) -> Picture:
        """How the API server says the pods stand."""
        found: Picture = {}
        for pod in self._world.store.all("pods").values():
            held = self._held.get(pod.uid)
            cards = tuple(grant.index for grant in held.grants) if held is not None else ()
            found[pod.key[1]] = (pod.doc["spec"].get("nodeName", ""), cards)
        return found

    def _inventory_of(self, node: Stored) -> Inventory | None:
        text = node.doc["metadata"].get("annotations", {}).get(self._world.vendor.inventory_annotation)
        try:
            return None if text is None else decode_inventory(text)
        except GcushareError:
            return None

    @property
    def serves_both(self) -> bool:
        """Whether cards are handed out whole too."""
        return self._world.settings.mode is Mode.BOTH
