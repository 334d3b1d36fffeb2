"""Invariants after a calm period, and at the end, when nothing may be left."""

from __future__ import annotations

import base64
from collections import Counter

from gcushare.scheduler_extender.mutual_tls.issuing import next_issue
from gcushare.scheduler_extender.state.scheduling_request import Policies, RejectedRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.contracts import CA, SERVER_CERT, SERVER_KEY
from gcushare.wire.objects import NODE, POD
from simulation.cast import Cast
from simulation.certificates import KEY, TERMS
from simulation.invariants import Invariants
from simulation.kubelet import Kubelet
from simulation.people import AUTHORS, pods_of_users
from simulation.programs import ExtenderReplica
from simulation.store import FINISHED
from simulation.world import ClusterWorld

BOUND_WITHIN_S = 90.0
"""In a calm period, a pod that fits is bound within this time. It begins later for a pod that a scheduler up to 1.26
leaves alone after a call that failed; the extender does not help there."""
REFUSED_FOR_S = 150.0
"""How long nothing is expected of a pod after a policy refused writes to it: a minute's pause, and some more time."""


class SettledInvariants:
    """Checks everyone in a world after a calm period. ``records`` has followed all writes."""

    def __init__(self, world: ClusterWorld, cast: Cast, records: Invariants) -> None:
        self._world = world
        self._cast = cast
        self._records = records

    def check_calm(self) -> None:
        """Check all invariants of a calm period."""
        world = self._world
        leaders = [each for each in self._cast.extenders if each.leads]
        if len(leaders) != 1:
            world.fail("one leader serves", f"after calm {len(leaders)} replicas lead")
            return
        labelled = [each.name for each in self._cast.extenders if each.is_labelled]
        if labelled != [leaders[0].name]:
            world.fail("the Service selects the leader", f"after calm {leaders[0].name} leads, {labelled} are labelled")
        truth = self._truth()
        for replica in self._cast.extenders:
            self._check_ledger(replica, truth)
        for kubelet in self._cast.kubelets.values():
            self._check_kubelet(kubelet)
            self._check_cards(kubelet)
        self._check_mirrors()
        self._check_sizes()
        self._check_bound(truth)
        self._check_reasons_of_failed()
        self._check_certificates()

    def _truth(self) -> VendorState:
        """The view of an extender that has just read everything."""
        state = VendorState(self._world.vendor, Policies("binpack", "binpack", "close"), monotonic=lambda: 0.0)
        for node in self._world.store.all("nodes").values():
            state.node_applied(NODE.read(node.raw))
        for pod in self._world.store.all("pods").values():
            state.pod_applied(POD.read(pod.raw))
        return state

    def _check_ledger(self, replica: ExtenderReplica, truth: VendorState) -> None:
        name, ledger = replica.name, replica.state.ledger
        if ledger.reserved:
            self._fail_ledger(f"{name} has reserved for {sorted(ledger.reserved)} since the storm")
        mine = {each.pod.uid: each for each in ledger.assignments()}
        real = {each.pod.uid: each for each in truth.ledger.assignments()}
        for uid in sorted(mine.keys() | real.keys()):
            if mine.get(uid) != real.get(uid):
                self._fail_ledger(f"{name} counts for {uid}: {mine.get(uid)}; the API server has: {real.get(uid)}")
        nodes, others = ledger.nodes, truth.ledger.nodes
        for node in sorted(nodes.keys() | others.keys()):
            if node not in nodes or node not in others or nodes[node].recount() != []:
                self._fail_ledger(f"{name} counts {node} wrongly")

    def _fail_ledger(self, words: str) -> None:
        self._world.fail("the ledger equals the API server's truth within a bounded lag", words)

    def _check_kubelet(self, kubelet: Kubelet) -> None:
        world = self._world
        pods = {each.uid: each for each in world.store.all("pods").values()}
        for uid in sorted(kubelet.devices.holders()):
            units, whole = kubelet.units_held(uid), kubelet.whole_cards_held(uid)
            if uid in self._records.lost:
                continue
            if uid not in pods or pods[uid].obj["status"].get("phase") in FINISHED:
                continue  # From the checkpoint; the next admission frees them.
            for resource in kubelet.endpoints:
                sick = kubelet.devices.pod_ids(uid, resource) - kubelet.devices.healthy[resource]
                # A container that was given no uuid has a number. That may mean a smaller card now, without these ids.
                if sick and not (world.faults["renumber"] and not kubelet.given(uid)):
                    words = f"{len(sick)} ids of {resource} that {pods[uid].key[1]} holds on {kubelet.node} are not"
                    world.fail("what pods hold is healthy, whatever became of their cards", words)
            if world.policies.refused_within(pods[uid].key[1], REFUSED_FOR_S):
                continue
            held = self._records.held.get(uid)
            if whole and whole != {grant.index for grant in (held.grants if held is not None else ()) if grant.whole}:
                words = "no record" if held is None else f"a record of {[each.index for each in held.grants]}"
                self._fail_kubelet(f"{pods[uid].key[1]} has {sorted(whole)} whole on {kubelet.node}, and {words}")
            if not units:
                continue
            recorded = {grant.index: grant.units for grant in held.grants} if held is not None else {}
            # Units that only init containers held are free again. Then only the cards must be right.
            is_all = sum(recorded.values()) == sum(units.values())
            if recorded.keys() != units.keys() or (is_all and recorded != units):
                name = pods[uid].key[1]
                self._fail_kubelet(f"{name} holds {units} on {kubelet.node}, and its record says {recorded}")

    def _check_cards(self, kubelet: Kubelet) -> None:
        """Check that a number is one card, and that no card was given more than it has."""
        machine, inventory = self._cast.machines[kubelet.node], self._cast.plugins[kubelet.node].inventory
        if inventory is None:
            return
        uuids, used = {card.index: card.uuid for card in inventory.cards}, Counter[str]()
        for uid in sorted(kubelet.devices.holders() & kubelet.containers.keys()):
            given, units = kubelet.given(uid), kubelet.units_held(uid)
            for number, uuid in given.items():
                used[uuid] += units.get(number, 0)
                if uuids.get(number, uuid) != uuid:
                    words = f"{uid} has {uuid} as card {number} of {kubelet.node}, where that is {uuids[number]}"
                    self._world.fail("a card is what its containers were given", words)
        for each in machine.cards.values():
            most = inventory.unit.units_in(each.card.memory_bytes)
            if used[each.card.uuid] > most:
                words = f"{used[each.card.uuid]} units of {each.card.uuid} are given, and it has {most}"
                self._world.fail("a card is what its containers were given", words)

    def _check_mirrors(self) -> None:
        """Check that pods which pass for mirrors have nothing, and that nothing is kept for them."""
        mirrors = {key for key, pod in self._world.store.all("pods").items() if key[0] == AUTHORS}
        ledgers = {each.name: each.state.ledger.assignments() for each in self._cast.extenders}
        found = [f"{name} counts {each.pod}" for name, held in ledgers.items() for each in held
                 if (each.pod.namespace, each.pod.name) in mirrors]  # fmt: skip
        for name, plugin in self._cast.plugins.items():
            inventory = plugin.inventory
            if inventory is None or not mirrors:
                continue
            named = [each.pod for card in inventory.cards for each in card.closures]
            found += [f"{name} keeps units for {pod}" for pod in (*named, *(each.pod for each in inventory.unrecorded))
                      if str(pod).startswith(f"{AUTHORS}/")]  # fmt: skip
        for words in found:
            self._world.fail("a mirror of no static pod has no card", words)

    def _fail_kubelet(self, words: str) -> None:
        self._world.fail("what a kubelet holds is in the ledger", words)

    def _check_sizes(self) -> None:
        """Records settle within the cards, but where cards shrank under their pods or a kubelet lost its checkpoint."""
        world = self._world
        for node, index in sorted(self._records.on_card):
            size = self._records.sizes.get(node, {}).get(index)
            units = self._records.units((node, index), size or 0)
            here = {uid: each.pod for uid, each in self._records.held.items() if each.node == node}
            pods = here.keys()
            is_refused = any(world.policies.refused_within(each.name, REFUSED_FOR_S) for each in here.values())
            is_sure = size is not None and not pods & self._records.lost and not is_refused
            if is_sure and units > (size or 0):
                really = sum(self._cast.kubelets[node].units_held(uid).get(index, 0) for uid in pods)
                if really <= (size or 0):
                    world.fail(
                        "recorded units of a card are never above its size",
                        f"after calm card {index} of {node} has {size} units, records say {units}, ids {really}",
                    )

    def _check_bound(self, truth: VendorState) -> None:
        """Check that each pod that fits is bound."""
        world = self._world
        if truth.nominations.leaving or len(truth.nominations):
            return  # Room is being made, or kept.
        pods = {each.uid: each for each in world.store.all("pods").values()}
        for uid, waiting in sorted(truth.waiting.items()):
            since_s = world.loop.now_s - self._records.waiting_since_s.get(uid, world.loop.now_s)
            left_s = world.loop.now_s - self._cast.scheduler.left_alone_until_s(uid)
            if isinstance(waiting, RejectedRequest) or min(since_s, left_s) < BOUND_WITHIN_S:
                continue
            if world.policies.refused_within(waiting.pod.name, REFUSED_FOR_S):
                continue
            for name, node in sorted(truth.ledger.nodes.items()):
                if node.fits(waiting.cards) and self._cast.scheduler.fits(pods[uid], name):
                    world.fail(
                        "a pod that fits is bound within a bound",
                        f"{waiting.pod} has waited for {since_s:.0f} s, and {name} has room for it",
                    )
                    return

    def _check_certificates(self) -> None:
        """Check that every replica serves with one whole set, which is valid by each one's clock."""
        found = self._world.store.find("secrets", KEY)
        held = {key: base64.b64decode(text) for key, text in (found.obj["data"] if found is not None else {}).items()}
        for replica in self._cast.extenders:
            words = ""
            if (issue := next_issue(held, TERMS, replica.clock.now())) is not None:
                words = f"{replica.name} would renew them: {issue.reason}"
            elif any(replica.keeper.shown.get(key) != held[key] for key in (CA, SERVER_CERT, SERVER_KEY)):
                words = f"{replica.name} serves with others than the Secret's"
            if words:
                self._world.fail("the scheduler's certificates are whole after calm", words)

    def _check_reasons_of_failed(self) -> None:
        for each in self._world.store.all("pods").values():
            status = each.obj["status"]
            if status.get("reason") == "UnexpectedAdmissionError" and not status.get("message"):
                self._world.fail("every refused pod has a reason", f"{each.key[1]} failed without a message")

    # At the end

    def check_end(self) -> None:
        """Check that nothing is left of deleted pods."""
        world = self._world
        if left := sorted(key[1] for key in pods_of_users(world)):
            world.fail("nothing leaks", f"pods do not end: {left}")
            return
        for replica in self._cast.extenders:
            ledger = replica.state.ledger
            pods = [str(each.pod) for each in ledger.assignments()]
            if pods or replica.state.waiting or replica.state.bound or replica.state.newer_reads.uids:
                world.fail("nothing leaks", f"{replica.name} still counts {pods}")
            under_way = sum(each.binds.under_way for each in replica.app.services)
            if under_way:
                world.fail("nothing leaks", f"{replica.name} has {under_way} bindings under way")
        for name, plugin in self._cast.plugins.items():
            parts, limited = plugin.app.observed, self._cast.containers.get(name)
            if parts.store.pending_allocations or parts.store.held_units():
                world.fail("nothing leaks", f"the plugin of {name} counts units as held")
            if limited is not None and (left := limited.limits()):
                world.fail("nothing leaks", f"limits of {left} are left on {name}")
            limits = plugin.app.observed.driver_limits
            if limits is not None and limits.used:
                world.fail("nothing leaks", f"the plugin of {name} counts memory of {sorted(limits.used)}")
        self._check_tasks()

    def _check_tasks(self) -> None:
        """Check that only the tasks and streams of idle programs exist."""
        world = self._world
        most = {"extender": 28, "plugin": 24}
        for program in self._cast.programs():
            tasks = program.process.live_tasks()
            if tasks > most[program.name.partition("-")[0].partition("/")[0]]:
                world.fail("nothing leaks", f"{program.name} has {tasks} tasks")
        streams = [owner.name for owner in world.gateway.watches.values()]
        for program in self._cast.programs():
            if streams.count(program.name) > 2:
                world.fail("nothing leaks", f"{program.name} has {streams.count(program.name)} streams open")
