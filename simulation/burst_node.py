"""A node of the bursts: its pods, its kubelet, the extender's view of it and the plugin's."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from gcushare.core.cards import Inventory, InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.ledger import Ledger
from gcushare.core.matching import KubeletCalls
from gcushare.core.placement import POLICIES
from gcushare.core.requests import PodRequest
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.device_plugin.allocation.allocator import CardAllocator, PodChanges
from gcushare.device_plugin.allocation.response import AllocateResponses
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.node_settings import Strategy
from gcushare.scheduler_extender.state.starting_pods import StartingPods
from gcushare.vendors import ENFLAME
from gcushare.wire import annotations as keys
from gcushare.wire.annotations import PodRecord, encode_record
from gcushare.wire.kubelet.device_ids import decode_whole_card_id, device_ids_of_card, encode_whole_card_id
from gcushare.wire.kubelet.plugin_messages import DeviceIds, device_ids
from gcushare.wire.objects import POD, Pod
from gcushare.wire.pods import kubelet_calls, pod_assignment, pod_ref, pod_request
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.kubelet.allocation import DeviceAllocator, NodePods
from gcushare_playground.kubelet.books import DeviceBooks
from gcushare_playground.kubelet.faults import KubeletFaults
from gcushare_playground.kubelet.podspec import ContainerSpec, parse_pod
from simulation.burst_plugin import BurstPlugin, RuleBroken
from simulation.burst_pods import MEMORY, RULES, RULES_BETWEEN_CARDS, SHAPES, WHOLE, WHOLE_SHAPES, make_pod
from simulation.store import Doc

MODELS = ("S60", "T20")
T = TypeVar("T")


class BurstNode:
    """One node, its pods, its kubelet, the extender's view of it and the plugin's. ``gates``: the extender's rule."""

    def __init__(self, seed: int, *, gates: bool = True) -> None:
        self.rng = random.Random(f"bursts/{seed}")
        self.gates = gates
        self.by_hand = self.rng.choice([0.0, 0.0, 0.0, 0.1, 0.3, 0.6, 1.0])  # of the pods, placed by no scheduler
        count = self.rng.choice([1, 2, 2, 3, 4, 6])
        # Of its own, so that half of the nodes are as they were before there were such rules.
        has_more = random.Random(f"bursts/{seed}/between cards").random() < 0.5
        self.rules = (*RULES, *RULES_BETWEEN_CARDS) if has_more else RULES
        cards = [
            InventoryCard(
                index=i,
                uuid=f"u{i}",
                memory_bytes=size * GIB,
                units=size,
                model=self.rng.choice(MODELS),
                link_group=f"pair {i // 2}" if has_more else "",
            )
            for i, size in enumerate(self.rng.choice([16, 16, 24, 8, 10]) for _ in range(count))
        ]
        self.inventory = Inventory(unit=parse_memory_unit("1"), cards=tuple(cards))
        self.cards = {card.index: card for card in cards}
        self.ledger = Ledger()
        self.ledger.set_node("n", cards, self.inventory.unit)
        self.starting = StartingPods(self.ledger)
        self.devices = DeviceBooks()
        self.devices.healthy = {
            MEMORY: {each for card in cards for each in device_ids_of_card(card.index, card.units)},
            WHOLE: {encode_whole_card_id(card.index) for card in cards},
        }
        self.plugins: dict[str, BurstPlugin] = {}
        self.allocator = DeviceAllocator(
            self.devices,
            self.plugins,
            pods=NodePods(lambda: set(self.pods)),
            faults=KubeletFaults(),
            rng=self.rng,
            on_granted=self._granted,
            save=lambda _checkpoint: None,
        )
        self.pods: dict[str, Pod] = {}
        """The API server's bound pods, by uid."""
        self.waiting: list[Pod] = []
        self.requests: dict[str, tuple[PodRequest, KubeletCalls]] = {}
        self.raw_pods: dict[str, Doc] = {}
        self.shown: set[str] = set()
        """The pods that podresources shows."""
        self.made = 0
        self._encoded: dict[frozenset[str], DeviceIds] = {}
        self.visible: dict[tuple[str, str], str] = {}
        self.counts: Counter[str] = Counter()
        self.restart_plugin()

    # The plugin

    def restart_plugin(self) -> None:
        """Start the plugin with nothing but what the API server and the kubelet say."""
        self.store = PodStore(ENFLAME)
        for pod in self.pods.values():
            self.store.pod_applied(pod)
        for resource in (MEMORY, WHOLE):
            allocator = CardAllocator(
                self.store,
                AllocateResponses(ENFLAME, (Strategy.ENV,)),
                PodChanges(),
                whole=resource == WHOLE,
                wait_for_pod_s=0.0,
                clock=lambda: 0.0,
                wall_clock_ns=lambda: 1,
                on_allocate=lambda: None,
            )
            allocator.set_inventory(self.inventory)
            self.plugins[resource] = BurstPlugin(allocator)
        self.read_kubelet()

    def read_kubelet(self, *, late: bool = False) -> None:
        """Read podresources, and of some pods the checkpoint, as the plugin's reconciler does.

        ``late``: the kubelet has not written what it gave out last into its checkpoint yet, and podresources shows it.
        """
        found = self._allocations("podresources")
        asked = {*self.store.missing_from(found.pods), *self.store.hidden_in(found)}
        if asked:
            found.add_missing(self._allocations("checkpoint", but_last=late), sorted(asked))
        self.store.on_kubelet_read(found, asked=frozenset(self.store.entries))

    def _allocations(self, source: str, *, but_last: bool = False) -> KubeletAllocations:
        found = KubeletAllocations(source)
        for entry in list(self.devices.entries())[: -1 if but_last else None]:
            name, container = entry.pod_uid, entry.container
            if source == "podresources":
                if name not in self.shown or container.startswith("init"):
                    continue
                name = f"default/{name}"
            if entry.resource == WHOLE:
                found.add_whole(name, container, sorted(entry.ids))
                continue
            if (encoded := self._encoded.get(entry.ids)) is None:
                encoded = self._encoded[entry.ids] = device_ids(sorted(entry.ids))
            found.add(name, container, encoded)
        return found

    def write_records(self) -> None:
        """Write what is due onto the pods; extender and plugin then see it."""
        uuids = {card.index: card.uuid for card in self.cards.values()}
        for write in self.store.writes(uuids, self.inventory.units_by_card, 1):
            pod = self.pods[write.pod.uid]
            annotations = {**pod.metadata.annotations, **write.annotations}
            self._update(_changed(pod, annotations))
            self.store.on_record_written(write)
            self.counts["corrected"] += bool(write.corrected_from)

    # The extender

    def create(self) -> None:
        """A user creates a pod that the extender accepts."""
        rule, shape = self.rng.choice(self.rules), self.rng.choice(SHAPES)
        resource, amounts = MEMORY, shape
        if self.rng.random() < 0.15:
            resource, amounts = WHOLE, self.rng.choice(WHOLE_SHAPES)
            rule = {key: value for key, value in rule.items() if key in (keys.USE_CARDS, keys.AVOID_CARDS)}
        raw = make_pod(f"p{self.made + 1}", amounts, resource, rule)
        pod = POD.read(json.dumps(raw).encode())
        try:
            request = pod_request(pod, ENFLAME)
        except Refused:  # a limit below the request, or an amount that three cards cannot share
            self.create()
            return
        assert request is not None
        self.made += 1
        self.raw_pods[pod.metadata.uid] = raw
        self.requests[pod.metadata.uid] = request, kubelet_calls(pod, request)
        self.waiting.append(pod)

    def bind(self) -> bool:
        """Bind the first waiting pod for which there is room and that no other has to precede; False if none is."""
        for pod in self.waiting:
            request, calls = self.requests[pod.metadata.uid]
            ref = pod_ref(pod)
            if self.rng.random() < self.by_hand:
                self.waiting.remove(pod)
                self.starting.add(ref.uid, "n", calls)
                self._update(_changed(pod, pod.metadata.annotations, node="n"))
                return True
            policy = POLICIES[pod.metadata.annotations.get(keys.CARD_POLICY, "binpack")]
            try:
                assignment = self.ledger.reserve(ref, "n", request.cards, policy.rank_card)
            except Refused:
                continue
            self.starting.add(ref.uid, "n", calls)
            if self.gates and self.starting.find_ahead(ref.uid, "n") is not None:
                self.ledger.roll_back(ref.uid)
                continue
            self.waiting.remove(pod)
            record = PodRecord(
                card_indexes=tuple(grant.index for grant in assignment.grants),
                card_units=16,
                pod_units=assignment.units,
                assign_time_ns=self.made,
                whole=request.cards.whole,
                apart=str(request.cards.apart or ""),
            )
            self._update(_changed(pod, {**pod.metadata.annotations, **encode_record(ENFLAME, record)}, node="n"))
            return True
        return False

    def _update(self, pod: Pod) -> None:
        self.pods[pod.metadata.uid] = pod
        if (assignment := pod_assignment(pod, ENFLAME)) is not None:
            self.ledger.apply(assignment)
        self.store.pod_applied(pod)

    def end(self, uid: str) -> None:
        """A pod ends, or was refused by the kubelet, and its object goes."""
        del self.pods[uid]
        self.devices.remove_pods([uid])
        self.shown.discard(uid)
        self.ledger.forget(uid)
        self.store.pod_deleted(uid, is_over=True)

    # The kubelet

    def admit(self, uid: str) -> None:
        """The kubelet admits a pod; it asks container by container, and never says for which."""
        pod = parse_pod(self.raw_pods[uid])
        for container in pod.containers:
            if self.by_hand or not self.gates or self._may_continue_another(container):
                # The plugin waits some milliseconds: the calls before are shown, and say whose they were.
                self.shown.add(uid)
                self.read_kubelet()
            try:
                _run(self.allocator.allocate(pod, container))
            except Refused as error:
                self.counts["refused"] += 1
                self.end(uid)
                if self.gates and not self.by_hand:
                    raise RuleBroken(f"{uid} was refused: {error}") from error
                return
            if self.rng.random() < 0.2:
                self.shown.add(uid)
                self.read_kubelet(late=self.rng.random() < 0.5)
        self.shown.add(uid)

    def _may_continue_another(self, container: ContainerSpec) -> bool:
        asked = ((MEMORY, False), (WHOLE, True))
        amounts = ((int(container.limits.get(resource, 0)), whole) for resource, whole in asked)
        return any(self.store.may_continue_another(amount, whole=whole) for amount, whole in amounts if amount)

    def _granted(self, uid: str, container: str) -> None:
        if problem := self.devices.find_conflict(uid, container):
            raise RuleBroken(problem)
        answer = pb.ContainerAllocateResponse.FromString(self.devices.container_entries(uid, container)[0].answer)
        self.visible[uid, container] = answer.envs["ENFLAME_VISIBLE_DEVICES"]

    def held(self, uid: str) -> dict[int, int]:
        """The distinct ids that a pod holds, by card."""
        ids = self.devices.pod_ids(uid, MEMORY) | self.devices.pod_ids(uid, WHOLE)
        memory = device_ids(sorted(ids))
        return memory.count_by_card() if memory.run else dict.fromkeys(map(decode_whole_card_id, ids), 1)


def _changed(pod: Pod, annotations: Mapping[str, str], *, node: str = "") -> Pod:
    spec = replace(pod.spec, node_name=node) if node else pod.spec
    return replace(pod, metadata=replace(pod.metadata, annotations=dict(annotations)), spec=spec)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run what never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuleBroken("a call of the plugin waits")
