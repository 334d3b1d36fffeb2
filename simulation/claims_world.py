"""Nodes that serve claims: the real driver on each, a scheduler that takes the first card that fits, and kubelets.

A world of its own, as the scheduler, the extender and the plugin of the other one have no part in it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gcushare.core.quantities import parse_count
from gcushare.core.units import GIB
from gcushare.wire.protos import services
from gcushare.wire.protos.dra_pb2 import Claim, NodePrepareResourcesRequest, NodePrepareResourcesResponse
from gcushare.wire.protos.dra_pb2 import NodeUnprepareResourcesRequest as Unprepare
from gcushare.wire.protos.dra_pb2 import NodeUnprepareResourcesResponse as Unprepared
from simulation.admission import AdmissionPolicies
from simulation.apiserver import ApiServer
from simulation.claims_node import NAMES, ClaimsNode
from simulation.claims_schedule import NODES, ClaimsSchedule
from simulation.loop import START_S, SimulatedLoop
from simulation.schedule import Action
from simulation.store import Change, Doc, Store
from simulation.transport import Gateway
from simulation.violation import Violation
from simulation.weather import Odds

POLL_S = 0.5
"""Between two rounds of the scheduler, the kubelets and the checks."""
CALL_S = 10.0
"""After so long a kubelet hangs up and calls again."""
END_S = 120.0
_SPACE = "default"


@dataclass(slots=True)
class Pod:
    """A pod with a claim of its name. ``units`` 0: a whole card. ``phase``: waits, bound, runs, ends."""

    name: str
    units: int
    uid: str
    phase: str = "waits"
    node: str = ""
    is_deleted: bool = False
    calling: asyncio.Task[None] | None = None
    call: int = 0
    called_s: float = -100.0


class ClaimsWorld:
    """One run."""

    def __init__(self, schedule: ClaimsSchedule) -> None:
        self.schedule = schedule
        self.seed = schedule.seed
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.history: list[str] = []
        self.rng = random.Random(f"claims world/{self.seed}")
        self.loop = SimulatedLoop(lambda words: self.fail("no process ends by any input", words))
        self.store = Store(self._changed)
        self.gateway = Gateway(self.loop, ApiServer(self.store, self.rng.randrange, AdmissionPolicies(self.loop)))
        self.nodes = [ClaimsNode(self, number, sizes) for number, sizes in enumerate(NODES)]
        self.pods: dict[str, Pod] = {}
        self._slices: list[Doc] = []
        """As the scheduler knows them; of the version ``_learned``."""
        self._learned = 0
        self._lag_s = self._loss = 0.0

    def note(self, words: str) -> None:
        """Write into the history."""
        self.history.append(f"{self.loop.now_s - START_S:9.3f}  {words}")

    def fail(self, invariant: str, words: str) -> None:
        """Record what must not be, and end the run."""
        self.note(f"VIOLATION of {invariant!r}: {words}")
        self.violations.append(Violation(invariant, words, self.loop.now_s - START_S))
        self.loop.is_stopped = True

    @property
    def digest(self) -> str:
        """What happened, in one number."""
        return hashlib.blake2b("\n".join(self.history).encode(), digest_size=16).hexdigest()

    @property
    def hours(self) -> float:
        """How long it has lived."""
        return (self.loop.now_s - START_S) / 3600

    def run(self) -> None:
        """Live through the schedule; after each calm everything has settled, and at the end nothing is left."""
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self._within(self._start)
        actions = deque(self.schedule.actions)
        for storm_end_s, calm_end_s in self.schedule.rounds:
            while actions and actions[0].at_s < storm_end_s:
                action = actions.popleft()
                self._live_until(action.at_s)
                self._within(lambda action=action: self._act(action))  # type: ignore[misc]
            self._live_until(storm_end_s)
            self._within(self._calm)
            self._live_until(calm_end_s)
            self._within(self._check_settled)
        self._within(self._delete_all)
        self._live_until(self.loop.now_s - START_S + END_S)
        self._within(self._check_end)
        with self.loop.entered():
            for node in self.nodes:
                self.loop.kill(node.process)

    def _live_until(self, at_s: float) -> None:
        if not self.loop.is_stopped:
            self.loop.run(START_S + at_s)

    def _within(self, do: Callable[[], None]) -> None:
        if not self.loop.is_stopped:
            with self.loop.entered():
                do()

    def _start(self) -> None:
        for node in self.nodes:
            metadata = {"name": node.name, "annotations": {}}
            self.store.create("nodes", {"metadata": metadata, "spec": {}, "status": {}}, "the world")
            node.start()
        self._turn()

    def _turn(self) -> None:
        """One round of everyone who only polls."""
        self._schedule_pods()
        for pod in list(self.pods.values()):
            self._sync(pod)
        self._check_cards()
        self.loop.call_world(POLL_S, self._turn)

    # The scheduler: claims are known at once, as it assumes what it allocates; slices come late.

    def _schedule_pods(self) -> None:
        held = self._allocated()
        for pod in self.pods.values():
            if pod.phase == "waits" and not pod.is_deleted and (found := self._first_fit(pod, self._slices, held)):
                pool, device, amount = found
                held[pool, device] += amount
                result = {"request": "card", "driver": NAMES.driver, "pool": pool, "device": device,
                          "consumedCapacity": {"memory": str(amount)}}  # fmt: skip
                status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"name": pod.name}]}
                self.store.update("resourceclaims", (_SPACE, pod.name), _with_status(status), "the scheduler")
                pod.phase, pod.node = "bound", pool
                self.note(f"{pod.name} goes to {device} of {pool}")

    def _allocated(self) -> Counter[tuple[str, str]]:
        held: Counter[tuple[str, str]] = Counter()
        for stored in self.store.all("resourceclaims").values():
            for result in stored.doc.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
                held[result["pool"], result["device"]] += parse_count(result["consumedCapacity"]["memory"])
        return held

    def _first_fit(self, pod: Pod, slices: list[Doc], held: Counter[tuple[str, str]]) -> tuple[str, str, int] | None:
        generations: dict[str, int] = {}
        for each in slices:
            pool = each["spec"]["pool"]
            generations[pool["name"]] = max(generations.get(pool["name"], 0), pool["generation"])
        for each in sorted(slices, key=lambda each: str(each["metadata"]["name"])):
            pool = each["spec"]["pool"]
            for device in each["spec"].get("devices", ()):
                size = parse_count(device["capacity"]["memory"]["value"])
                amount = pod.units * GIB or size
                is_free = held[pool["name"], device["name"]] + amount <= size
                if is_free and not device.get("taints") and pool["generation"] == generations[pool["name"]]:
                    return pool["name"], device["name"], amount
        return None

    # The kubelets

    def _sync(self, pod: Pod) -> None:
        if pod.calling is not None and self.loop.now_s - pod.called_s < CALL_S:
            return
        if pod.calling is not None:
            pod.calling.cancel()
            pod.calling = None
        if pod.is_deleted and pod.phase == "waits":
            self._forget(pod)
        elif pod.is_deleted:
            pod.phase = "ends"
            self._call(pod, services.NODE_UNPREPARE_RESOURCES, Unprepare(claims=[self._claim(pod)]))
        elif pod.phase == "bound":
            request = NodePrepareResourcesRequest(claims=[self._claim(pod)])
            self._call(pod, services.NODE_PREPARE_RESOURCES, request)

    def _call(self, pod: Pod, method: str, request: Any) -> None:
        node = next(each for each in self.nodes if each.name == pod.node)
        pod.call += 1
        number, pod.called_s = pod.call, self.loop.now_s
        if self.rng.random() < self._loss:
            self.faults["call lost"] += 1
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
                self.counts["pods run"] += 1
                self.note(f"{pod.name} runs")

    def _claim(self, pod: Pod) -> Claim:
        return Claim(uid=pod.uid, name=pod.name, namespace=_SPACE)

    def _forget(self, pod: Pod) -> None:
        self.note(f"{pod.name} is gone")
        del self.pods[pod.name]
        if self.store.find("resourceclaims", (_SPACE, pod.name)) is not None:
            self.store.delete("resourceclaims", (_SPACE, pod.name), "the claims' controller")

    # What happens

    def _delete(self, pod: Pod) -> None:
        pod.is_deleted = True

    def _delete_all(self) -> None:
        for pod in self.pods.values():
            self._delete(pod)

    def _act(self, action: Action) -> None:
        self.note(f"> {action.words()[11:]}")
        args, node = action.args, self.nodes[action.args["node"]]
        if action.kind not in ("create", "delete"):
            self.faults[action.kind] += 1
        match action.kind:
            case "create":
                metadata = {"name": args["name"], "namespace": _SPACE}
                exactly = {"deviceClassName": NAMES.memory_class if args["units"] else NAMES.whole_class}
                spec = {"devices": {"requests": [{"name": "card", "exactly": exactly}]}}
                made = self.store.create("resourceclaims", {"metadata": metadata, "spec": spec}, "a user")
                self.pods[args["name"]] = Pod(args["name"], args["units"], made.uid)
            case "delete" | "force" if self.pods:
                pod = list(self.pods.values())[int(args["which"] * len(self.pods))]
                self._delete(pod)
                if action.kind == "force" and self.store.find("resourceclaims", (_SPACE, pod.name)) is not None:
                    # The pod is gone for everyone but its kubelet, so its claim is given to others.
                    self.store.delete("resourceclaims", (_SPACE, pod.name), "the claims' controller")
            case "kill":
                if args["writes"]:
                    node.disk.writes_to_live = args["writes"] - 1
                else:
                    node.process.steps_to_live = args["steps"]
            case "calls":
                self._loss = args["odds"]
                self.loop.call_world(args["for_s"], setattr, self, "_loss", 0.0)
            case "weather":
                node.weather.begin(self.loop.steps, Odds(**args["odds"]))
                self.loop.call_world(args["for_s"], node.weather.clear)
            case "late slices":
                self._lag_s = args["lag_s"]
                self.loop.call_world(args["for_s"], setattr, self, "_lag_s", 0.0)
            case "sick card":
                node.sick.add(args["card"])
                node.update_cards()
                self.loop.call_world(args["for_s"], self._heal, node)
            case "cordon":
                self._cordon(node, str(args["card"]))
                self.loop.call_world(args["for_s"], self._cordon, node, "")
            case "lose checkpoint":
                self.loop.kill(node.process)
                node.disk.checkpoint = b"{"
            case "foreign slice":
                self._forge_slice(node)

    def _heal(self, node: ClaimsNode) -> None:
        node.sick.clear()
        node.update_cards()

    def _cordon(self, node: ClaimsNode, words: str) -> None:
        annotations = {"gcushare.io/cordoned-cards": words}
        self.store.update(
            "nodes",
            ("", node.name),
            lambda doc: {**doc, "metadata": {**doc["metadata"], "annotations": annotations}},
            "an admin",
        )

    def _forge_slice(self, node: ClaimsNode) -> None:
        key = ("", f"{node.name}-forged")
        if self.store.find("resourceslices", key) is None:
            pool = {"name": node.name, "generation": self.store.version, "resourceSliceCount": 1}
            spec = {"driver": NAMES.driver, "nodeName": node.name, "pool": pool}
            self.store.create("resourceslices", {"metadata": {"name": key[1]}, "spec": spec}, "somebody")

    def _calm(self) -> None:
        self.note("calm")
        self._loss = self._lag_s = 0.0
        for node in self.nodes:
            node.weather.clear()
            node.disk.writes_to_live = node.process.steps_to_live = None
            self._heal(node)
            self._cordon(node, "")

    # What must be

    def _check_cards(self) -> None:
        """No card over its size, by what is on the nodes' disks; what runs has its file."""
        for node in self.nodes:
            claims = node.disk.claims
            if claims is None:
                continue
            held: Counter[int] = Counter()
            for claim in node.disk.files.values():
                for device in claim.devices:
                    held[device.index] += device.memory_bytes
            for index, amount in held.items():
                if amount > node.sizes[index] * GIB:
                    self.fail("no card is given beyond its size", f"card {index} of {node.name} gives {amount} bytes")
            for pod in self.pods.values():
                if pod.node == node.name and pod.phase == "runs" and pod.uid not in node.disk.files:
                    self.fail("what runs has its share", f"{pod.name} on {node.name} has no CDI file")

    def _check_settled(self) -> None:
        """Pods that fit run, slices are as they should be, and nothing is prepared without a pod."""
        held = self._allocated()
        slices = [each.doc for each in self.store.all("resourceslices").values()]
        for pod in self.pods.values():
            if pod.phase in ("bound", "ends") or pod.is_deleted:
                self.fail("everything settles", f"{pod.name} is {pod.phase}, deleted: {pod.is_deleted}")
            elif pod.phase == "waits" and (found := self._first_fit(pod, slices, held)):
                self.fail("everything settles", f"{pod.name} waits and fits {found}")
        for node in self.nodes:
            publisher = node.publisher
            if publisher is None or not publisher.is_current or publisher.published != 1:
                self.fail("everything settles", f"the slices of {node.name} are not as they should be")
            wanted = {pod.uid for pod in self.pods.values() if pod.node == node.name and pod.phase == "runs"}
            found_claims = node.disk.claims
            if found_claims is None or set(found_claims) != wanted or set(node.disk.files) != wanted:
                prepared = sorted(found_claims or ())
                self.fail(
                    "no share without a claim",
                    f"{node.name}: {sorted(wanted)} run, {prepared} are prepared, {sorted(node.disk.files)} have files",
                )

    def _check_end(self) -> None:
        self._check_settled()
        if self.pods:
            self.fail("everything settles", f"{sorted(self.pods)} are left")

    def _changed(self, change: Change) -> None:
        self.note(f"api: {change.kind.lower()} {change.new.plural} {change.new.key[1]} by {change.by}")
        self.gateway.publish(change)
        if change.new.plural == "resourceslices":
            slices = [each.doc for each in self.store.all("resourceslices").values()]
            self.loop.call_world(0.05 + self._lag_s * self.rng.random(), self._learn, change.version, slices)

    def _learn(self, version: int, slices: list[Doc]) -> None:
        if version > self._learned:
            self._learned, self._slices = version, slices


def _with_status(status: Doc) -> Callable[[Doc], Doc]:
    return lambda doc: {**doc, "status": status}
