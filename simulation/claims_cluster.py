"""Nodes that serve claims: the real driver on each, a scheduler that takes the first card that fits, and kubelets.

A run of its own, as the scheduler, the extender and the plugin of the other one have no part in it.
"""

from __future__ import annotations

import random
from typing import Any

from msgspec import to_builtins

from gcushare.core.quantities import parse_count
from gcushare.core.units import GIB
from gcushare.vendors import ALIYUN
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.dra.claim_names import ClaimSize
from gcushare.wire.dra.claims import template_spec
from gcushare.wire.protos import services
from gcushare.wire.protos.dra_pb2 import Claim, NodePrepareResourcesRequest, NodePrepareResourcesResponse
from gcushare.wire.protos.dra_pb2 import NodeUnprepareResourcesRequest as Unprepare
from gcushare.wire.protos.dra_pb2 import NodeUnprepareResourcesResponse as Unprepared
from gcushare_playground.apiserver.patches import merge
from gcushare_playground.apiserver.storage import Change
from gcushare_playground.scheduler.claims import devices_of
from simulation.claims_faults import delete_slices, forge_slice, recreate
from simulation.claims_known import ORPHAN_S, Orphans, check_cards, check_orphans, check_views
from simulation.claims_node import NAMES, UNIT, ClaimsNode
from simulation.claims_replica import ClaimsReplica
from simulation.claims_schedule import NODES, STORM_S, ClaimsSchedule
from simulation.claims_scheduler import SPACE, ClaimsScheduler, Pod, with_status
from simulation.loop import START_S
from simulation.schedule import Action
from simulation.store import Doc
from simulation.world import World, play

POLL_S = 0.5
"""Between two rounds of the scheduler, the kubelets and the checks."""
CALL_S = 10.0
"""After so long a kubelet hangs up and calls again."""
END_S = 120.0
_TEMPLATES = "resourceclaimtemplates"


class ClaimsCluster:
    """One run."""

    def __init__(self, schedule: ClaimsSchedule) -> None:
        self.schedule = schedule
        self.rng = random.Random(f"claims world/{schedule.seed}")
        world = self.world = World(self.rng, schedule.planted)
        self._loop, self._store, self._fail = world.loop, world.store, world.fail
        world.listeners.append(self._changed)
        self.nodes = [
            ClaimsNode(world, schedule.seed, number, sizes, self.containers_on) for number, sizes in enumerate(NODES)
        ]
        self.replicas = [ClaimsReplica(world, schedule.seed, number) for number in range(2)]
        self.pods: dict[str, Pod] = {}
        self._scheduler = ClaimsScheduler(world.store, world.note)
        self._lag_s = self._loss = 0.0
        self.orphans: Orphans = {}

    def run(self) -> None:
        """Live through the schedule; after each calm everything has settled, and at the end nothing is left."""
        play(self.world, self, self.schedule.actions, self.schedule.rounds)
        self.world.within(self._delete_all)
        self.world.live_until(self._loop.now_s - START_S + END_S + (ORPHAN_S if self.orphans else 0.0))
        self.world.within(self._check_end)
        with self._loop.entered():
            for process in (*(node.process for node in self.nodes), *(replica.process for replica in self.replicas)):
                self._loop.kill(process)

    def start(self) -> None:
        """Start everyone."""
        for node in self.nodes:
            metadata = {"name": node.name, "annotations": {}, "labels": {SERVE_LABEL: SERVE_CLAIMS}}
            self._store.create("nodes", {"metadata": metadata, "spec": {}, "status": {}}, "the world")
            node.start()
        self._store.create("namespaces", {"metadata": {"name": SPACE}}, "the world")
        for replica in self.replicas:
            replica.start()
        self._turn()

    def _turn(self) -> None:
        """One round of everyone who only polls."""
        self._make_claims()
        self._scheduler.schedule(self.pods.values())
        for pod in list(self.pods.values()):
            self._sync(pod)
        check_cards(self.world, self.nodes, self.pods.values())
        if len(leaders := [each.name for each in self.replicas if each.is_leader]) > 1:
            self._fail("one replica leads", f"{leaders} lead")
        self._loop.call_world(POLL_S, self._turn)

    # Kubernetes' controller of claims

    def _make_claims(self) -> None:
        for pod in self.pods.values():
            template = self._store.find(_TEMPLATES, (SPACE, _template_name(pod.units)))
            if pod.phase == "new" and not pod.is_deleted and template is not None:
                spec = template.obj["spec"]["spec"]
                pod.units = (
                    parse_count(spec["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["memory"]) // GIB
                )
                self._create_claim(pod, spec)

    def _create_claim(self, pod: Pod, spec: Doc) -> None:
        metadata = {"name": pod.claim, "namespace": SPACE}
        pod.uid = self._store.create(
            "resourceclaims", {"metadata": metadata, "spec": spec}, "the claims' controller"
        ).uid
        pod.phase = "waits"

    # The kubelets

    def _sync(self, pod: Pod) -> None:
        if pod.calling is not None and self._loop.now_s - pod.called_s < CALL_S:
            return
        if pod.calling is not None:
            pod.calling.cancel()
            pod.calling = None
        if pod.is_deleted and pod.phase in ("new", "waits"):
            self._forget(pod)
        elif pod.is_deleted:
            pod.phase = "ends"
            self._call(pod, services.NODE_UNPREPARE_RESOURCES, Unprepare(claims=[self._claim(pod)]))
        elif pod.phase == "bound" and not any(
            each.uid == pod.uid and each.node == pod.node and each.is_deleted for each in self.pods.values()
        ):  # a kubelet has one state of a claim, whichever pods use it
            request = NodePrepareResourcesRequest(claims=[self._claim(pod)])
            self._call(pod, services.NODE_PREPARE_RESOURCES, request)

    def _call(self, pod: Pod, method: str, request: Any) -> None:
        node = next(each for each in self.nodes if each.name == pod.node)
        pod.call += 1
        number, pod.called_s = pod.call, self._loop.now_s
        if self.rng.random() < self._loss:
            self.world.faults["call lost"] += 1
            pod.calling = None
            return
        is_answer_lost = self.rng.random() < self._loss

        def then(body: bytes) -> None:
            if pod.call == number and not is_answer_lost:
                pod.calling = None
                self._answered(pod, method, body)

        pod.calling = node.call(method, request.SerializeToString(), then)

    def _answered(self, pod: Pod, method: str, body: bytes) -> None:
        if method == services.NODE_UNPREPARE_RESOURCES:
            if not Unprepared.FromString(body).claims[pod.uid].error:
                self._forget(pod)
        elif pod.phase == "bound":
            answer = NodePrepareResourcesResponse.FromString(body).claims[pod.uid]
            if not answer.error and not pod.is_deleted:
                pod.phase = "runs"
                self._set_phase(pod, "Running")
                self.world.counts["pods run"] += 1
                self.world.note(f"{pod.name} runs")

    def _claim(self, pod: Pod) -> Claim:
        return Claim(uid=pod.uid, name=pod.claim, namespace=SPACE)

    def _forget(self, pod: Pod) -> None:
        self.world.note(f"{pod.name} is gone")
        del self.pods[pod.name]
        self._remove("pods", pod.name)
        if not pod.passes_on:
            self._remove("resourceclaims", pod.claim)

    def _remove(self, plural: str, name: str) -> None:
        if self._store.find(plural, (SPACE, name)) is not None:
            self._store.delete(plural, (SPACE, name), "the world")

    def _set_phase(self, pod: Pod, phase: str) -> None:
        if self._store.find("pods", (SPACE, pod.name)) is not None:
            self._store.update("pods", (SPACE, pod.name), with_status({"phase": phase}), "a kubelet")

    def _create_pod(self, pod: Pod, entry: Doc) -> None:
        spec = {"resourceClaims": [{"name": "card", **entry}]}
        metadata = {"name": pod.name, "namespace": SPACE}
        self._store.create("pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}, "a user")
        self.pods[pod.name] = pod

    def _pass_on(self, pod: Pod, name: str) -> None:
        """Delete a pod by force whose claim is deallocated under way and used by another pod at once."""
        pod.is_deleted = pod.passes_on = True
        self._remove("pods", pod.name)
        self._store.update("resourceclaims", (SPACE, pod.claim), with_status({}), "the scheduler")
        self._create_pod(Pod(name, pod.units, pod.claim, pod.uid, "waits"), {"resourceClaimName": pod.claim})

    def _forget_use(self, pod: Pod) -> None:
        """A pod and its claim are deleted, and its kubelet lost its state: the end of the use is never reported."""
        self.orphans[pod.uid] = (pod.node, self._loop.now_s)
        pod.call += 1
        self._forget(pod)

    def containers_on(self, node: str) -> dict[tuple[str, str], frozenset[str]]:
        """The claims of the containers of a node, as its kubelet shows them."""
        here = (pod for pod in self.pods.values() if pod.node == node and pod.phase in ("bound", "runs", "ends"))
        return {(f"{SPACE}/{pod.name}", "main"): frozenset({f"{SPACE}/{pod.claim}"}) for pod in here}

    def _restart_kubelet(self, node: ClaimsNode) -> None:
        """What was under way is forgotten, and what runs is prepared again."""
        for pod in self.pods.values():
            if pod.node == node.name:
                pod.call += 1
                if pod.calling is not None:
                    pod.calling.cancel()
                pod.calling = None
                pod.phase = "bound" if pod.phase == "runs" else pod.phase

    # What happens

    def _delete(self, pod: Pod) -> None:
        pod.is_deleted = True

    def _delete_all(self) -> None:
        for pod in self.pods.values():
            self._delete(pod)

    def act(self, action: Action) -> None:
        """Do what an action says."""
        args, node = action.args, self.nodes[action.args["node"]]
        if action.kind not in ("create", "delete"):
            self.world.faults[action.kind] += 1
        match action.kind:
            case "create":
                pod = Pod(args["name"], args["units"], args["name"])
                self._create_pod(pod, {"resourceClaimTemplateName": _template_name(pod.units)} if pod.units else {})
                if not pod.units:
                    exactly = {"deviceClassName": NAMES.whole_class}
                    self._create_claim(pod, {"devices": {"requests": [{"name": "card", "exactly": exactly}]}})
            case "delete" | "force" if self.pods:
                pod = list(self.pods.values())[int(args["which"] * len(self.pods))]
                self._delete(pod)
                if action.kind == "force":
                    # The pod is gone for everyone but its kubelet, so its claim is given to others.
                    self._remove("pods", pod.name)
                    if not pod.passes_on:
                        self._remove("resourceclaims", pod.claim)
            case "pass on":
                shared = {each.uid for each in self.pods.values() if each.passes_on}
                found = [each for each in self.pods.values() if each.phase in ("bound", "runs") and not each.is_deleted]
                if found := [each for each in found if each.uid not in shared]:
                    self._pass_on(found[int(args["which"] * len(found))], args["name"])
            case "forget use":
                found = [each for each in self.pods.values() if each.phase == "runs" and not each.passes_on]
                found = [each for each in found if sum(other.uid == each.uid for other in self.pods.values()) == 1]
                if found:
                    self._forget_use(found[int(args["which"] * len(found))])
            case _:
                self._disturb(action, node)

    def _disturb(self, action: Action, node: ClaimsNode) -> None:
        """Do what programs, machines and other users do to a node and to the extender."""
        args = action.args
        match action.kind:
            case "restart kubelet":
                self._restart_kubelet(node)
            case "kill extender":
                self.replicas[args["replica"]].process.steps_to_live = args["steps"]
            case "extender weather":
                self.replicas[args["replica"]].disturb(args["odds"], args["for_s"])
            case "delete template":
                self._remove(_TEMPLATES, _template_name(args["units"]))
            case "foreign template" if self._store.find(_TEMPLATES, (SPACE, _template_name(args["units"]))) is None:
                spec = to_builtins(template_spec(ClaimSize(1), ALIYUN, UNIT))
                name = _template_name(args["units"])
                self._store.create(_TEMPLATES, {"metadata": {"name": name, "namespace": SPACE}, "spec": spec}, "a user")
                self._loop.call_world(args["for_s"], self._remove_foreign)
            case "kill":
                if args["writes"]:
                    node.disk.writes_to_live = args["writes"] - 1
                else:
                    node.process.steps_to_live = args["steps"]
            case "calls":
                self._loss = args["odds"]
                self._loop.call_world(args["for_s"], setattr, self, "_loss", 0.0)
            case "weather":
                node.disturb(args["odds"], args["for_s"])
            case "late slices":
                self._lag_s = args["lag_s"]
                self._loop.call_world(args["for_s"], setattr, self, "_lag_s", 0.0)
            case "sick card":
                node.sicken(args["card"])
                self._loop.call_world(args["for_s"], node.heal)
            case "renumber":
                if args["boots"]:
                    self._loop.kill(node.process)
                    self._restart_kubelet(node)
                node.list_cards(args["order"])
                self._loop.call_world(args["for_s"], node.list_all_cards)
            case "silent library":
                node.machine.is_silent = True
                self._loop.call_world(args["for_s"], setattr, node.machine, "is_silent", False)
            case "cordon":
                self._cordon(node, str(args["card"]))
                self._loop.call_world(args["for_s"], self._cordon, node, "")
            case "lose checkpoint":
                self._loop.kill(node.process)
                node.disk.checkpoint = b"{"
            case "foreign slice":
                forge_slice(self.world, node)
            case "delete slices":
                delete_slices(self.world, node)
            case "recreate":
                name = _template_name(args["units"])
                recreate(self.world, args["what"], node, name, is_listed=args["lists"] < 0.5)

    def _remove_foreign(self) -> None:
        for key, stored in list(self._store.all(_TEMPLATES).items()):
            if not stored.obj["metadata"].get("labels"):
                self._remove(_TEMPLATES, key[1])

    def _cordon(self, node: ClaimsNode, words: str) -> None:
        cordon = {"metadata": {"annotations": {"gcushare.io/cordoned-cards": words}}}
        self._store.update("nodes", ("", node.name), lambda doc: merge(doc, cordon), "an admin")

    def calm(self) -> None:
        """End every fault."""
        self.world.note("calm")
        self._loss = self._lag_s = 0.0
        self._remove_foreign()
        for program in (*self.replicas, *self.nodes):
            program.calm()
        for node in self.nodes:
            node.disk.writes_to_live = None
            node.machine.is_silent = False
            node.list_all_cards()
            node.heal()
            self._cordon(node, "")

    # What must be

    def check_settled(self) -> None:
        """Pods that fit run, slices are as they should be, and nothing is prepared without a pod."""
        # Drivers may have been killed again and again all the time: each starts to count again.
        storms_s = sum(calm_s - storm_s + STORM_S for storm_s, calm_s in self.schedule.rounds)
        check_orphans(self.world, self.nodes, self.orphans, storms_s)
        check_views(self.world, self.nodes, self.replicas)
        held = self._scheduler.held()
        devices = tuple(devices_of([each.obj for each in self._store.all("resourceslices").values()]))
        for pod in self.pods.values():
            if pod.phase == "bound" and any(where == pod.node for where, _ in self.orphans.values()):
                continue  # the scheduler counts what an orphan holds as free
            if pod.phase in ("new", "bound", "ends") or pod.is_deleted:
                self._fail("everything settles", f"{pod.name} is {pod.phase}, deleted: {pod.is_deleted}")
            elif pod.phase == "waits" and (found := self._scheduler.first_fit(pod, devices, held)):
                self._fail("everything settles", f"{pod.name} waits and fits {found}")
        if not any(each.is_leader for each in self.replicas):
            self._fail("everything settles", "no replica of the extender leads")
        for node in self.nodes:
            publisher = node.publisher
            if publisher is None or not publisher.is_current or publisher.published != 1:
                self._fail("everything settles", f"the slices of {node.name} are not as they should be")
            wanted = {pod.uid for pod in self.pods.values() if pod.node == node.name and pod.phase == "runs"}
            wanted |= {uid for uid, (where, _) in self.orphans.items() if where == node.name}
            found_claims = node.disk.claims
            if found_claims is None or set(found_claims) != wanted or set(node.disk.files) != wanted:
                prepared = sorted(found_claims or ())
                self._fail(
                    "no share without a claim",
                    f"{node.name}: {sorted(wanted)} run, {prepared} are prepared, {sorted(node.disk.files)} have files",
                )

    def _check_end(self) -> None:
        self.check_settled()
        if self.orphans:
            self._fail("no share without a claim", f"{sorted(self.orphans)} are still prepared")
        if self.pods:
            self._fail("everything settles", f"{sorted(self.pods)} are left")
        if left := sorted(key[1] for key in self._store.all(_TEMPLATES)):
            self._fail("everything settles", f"templates {left} are left, which no pod names")

    def _changed(self, change: Change) -> None:
        if change.collection == "resourceslices":
            slices = [each.obj for each in self._store.all("resourceslices").values()]
            self._loop.call_world(0.05 + self._lag_s * self.rng.random(), self._scheduler.learn, change.version, slices)


def _template_name(units: int) -> str:
    return ClaimSize(units).template_name(NAMES.template_prefix)
