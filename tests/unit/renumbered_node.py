"""A node whose driver numbers its cards differently from boot to boot, with its plugin, its kubelet and its ledger."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from gcushare.cards.health import CardRoster
from gcushare.cards.ports import CardReport, HealthReading
from gcushare.cluster.view import ClusterView
from gcushare.core.assignments import CardGrant
from gcushare.core.card_state import CardState
from gcushare.core.cards import Card
from gcushare.core.errors import Refused
from gcushare.core.requests import CardRequest
from gcushare.core.units import GIB
from gcushare.device_plugin.node.held_cards import find_held_cards
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.device_plugin.pods.allocations import CHECKPOINT
from gcushare.node.grant_form import follow_cards
from gcushare.node.node_settings import Strategy
from gcushare.vendors import Vendor
from gcushare.wire.annotations import CARD_UUID, PodRecord
from gcushare.wire.kubelet.device_ids import decode_device_id, is_device_id
from gcushare.wire.kubelet.plugin_messages import PreferredRequest, device_ids
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.objects import Node, Pod
from gcushare.wire.protos import deviceplugin_pb2 as pb
from tests.card_health import POLICY
from tests.extender_objects import pod_document
from tests.unit.node_agent_rig import Rig, allocations, make_rig

NODE = "node-1"
GOOD = HealthReading(healthy=True, conclusive=True)


@dataclass(frozen=True)
class Container:
    """What the kubelet keeps of a container: its ids, and the plugin's answer, which it gives again at each start."""

    uid: str
    ids: tuple[str, ...]
    answer: bytes

    @property
    def is_whole(self) -> bool:
        return not is_device_id(self.ids[0])


@dataclass
class RenumberedNode:
    """``machine``: uuids and sizes (GiB) of the cards that are there, in the driver's order."""

    vendor: Vendor
    machine: list[tuple[str, int]]
    kubelet: dict[str, Container] = field(default_factory=dict)
    ended: list[Container] = field(default_factory=list)
    """Entries of pods that have ended, which a checkpoint keeps until the next admission."""
    pods: dict[str, Pod] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)
    """The uuids of the cards that pods were bound to which the kubelet does not admit, while these must not change."""

    def __post_init__(self) -> None:
        self.follows = follow_cards(self.vendor, (Strategy.ENV,))
        self.view = ClusterView(self.vendor)
        self.sizes |= dict(self.machine)
        self.start()

    # What happens

    def start(self, *, alone: bool = False, silent: bool = False) -> None:
        """Start the plugin, with what the kubelet and the API server keep.

        ``alone``: the API server answers only after the plugin has stopped waiting for it, and has counted its cards.
        ``silent``: the driver's library answers later than the kubelet.
        """
        self.is_alone = alone
        self.roster = CardRoster(POLICY, by_uuid=self.follows)
        self.rig: Rig = make_rig(
            self.vendor.default_unit, GrantMode.BOTH, vendor=self.vendor, hold_numbers=self._hold, lists_pods=False
        )
        store = self.rig.parts.store
        if not alone:
            self._meet_api_server()
        self.see_kubelet()
        every = (*self.ended, *self.kubelet.values())
        answers = {each.uid: each.answer for each in every}
        kept = allocations(
            {each.uid: sorted(each.ids) for each in every}, CHECKPOINT, container="main", answers=answers
        )
        self.roster.hold(find_held_cards(store, kept, self.vendor, self.rig.parts.publisher.former), 0.0)
        if silent:
            self.rig.agent.on_cards_change(self.roster.snapshot("the library does not answer"))
            self.see_kubelet()
        self.poll()
        if alone:
            self.bound.clear()  # Nothing but the inventory says which cards these were.
            self.is_alone = False
            self._meet_api_server()
            self.settle()

    def poll(self) -> None:
        """Have the driver list its cards as they are now."""
        self.sizes |= dict(self.machine)
        listed = [Card(index=at, uuid=uuid, memory_bytes=size * GIB) for at, (uuid, size) in enumerate(self.machine)]
        self.roster.update_list(CardReport(cards=tuple(listed)), 0.0)
        for card in listed:
            self.roster.record_reading(card, GOOD, 0.0)
        self.rig.agent.on_cards_change(self.roster.snapshot())
        self.settle()

    def run(self, name: str, request: CardRequest) -> bool:
        """Have a pod of one container scheduled by the ledger and admitted; False if it is not running then."""
        fitting = self._fitting(request)
        if len(fitting) < request.cards:
            return False
        grants = [state.grant(request) for state in fitting[: request.cards]]
        units = sum(grant.units for grant in grants)
        record = PodRecord(
            card_indexes=tuple(grant.index for grant in grants),
            card_units=fitting[0].total,
            pod_units=units,
            assign_time_ns=len(self.pods) + 1,
            whole=request.whole,
        )
        asked = {"gcushare.io/cards": str(request.cards)} if request.cards > 1 and not request.whole else {}
        document = pod_document(
            name,
            None if request.whole else units,
            vendor=self.vendor,
            node=NODE,
            record=record,
            annotations=asked,
            whole=request.cards if request.whole else 0,
        )
        self._apply(msgspec.convert(document, Pod))
        return asyncio.run(self._admit(name, request.cards if request.whole else units, whole=request.whole))

    def bind(self, name: str, units: int) -> bool:
        """Bind a pod that the kubelet does not admit yet."""
        fitting = self._fitting(CardRequest(units))
        if fitting:
            record = PodRecord(card_indexes=(fitting[0].index,), card_units=fitting[0].total, pod_units=units)
            document = pod_document(name, units, vendor=self.vendor, node=NODE, record=record)
            self._apply(msgspec.convert(document, Pod))
            self.bound[name] = next((card.uuid for card in self._cards() if card.index == fitting[0].index), "")
        return bool(fitting)

    def end(self, name: str) -> None:
        """End a pod: its ids are free, and the checkpoint may keep its entry for a while."""
        if name in self.kubelet:
            self.ended.append(self.kubelet.pop(name))
        pod = self.pods.pop(name)
        stopped = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded"))
        self.rig.agent.pod_applied(stopped)
        self.rig.agent.pod_deleted(stopped)
        self.view.pod_deleted(pod.metadata.uid)
        self.see_kubelet()
        self.settle()

    def forget_node(self) -> None:
        """Delete the Node: its annotations are gone, and the kubelet makes another one."""
        self.annotations.clear()
        self.view.node_deleted(NODE)

    def settle(self) -> None:
        """Write what the plugin wants written on the Node and on pods."""
        if self.is_alone:
            return
        wanted = self.rig.parts.publisher.wanted
        if wanted is not None:
            self.annotations[self.vendor.inventory_annotation] = encode_inventory(wanted)
            self.rig.agent.node_applied(self._node())
        self.view.node_applied(self._node())
        inventory = self.rig.agent.inventory
        if inventory is None:
            return  # There was no card since the plugin started.
        uuids = {card.index: card.uuid for card in inventory.cards}
        for write in self.rig.parts.store.writes(uuids, inventory.units_by_card, 1):
            pod = self.pods[write.pod.name]
            metadata = msgspec.structs.replace(
                pod.metadata, annotations=pod.metadata.annotations | dict(write.annotations)
            )
            self.rig.parts.store.on_record_written(write)
            self._apply(msgspec.structs.replace(pod, metadata=metadata))

    # What is true

    def given(self, container: Container) -> dict[str, int]:
        """What a container has of each physical card, in GiB, by what the runtime makes of its stored answer."""
        words = pb.ContainerAllocateResponse.FromString(container.answer).envs[self.vendor.environment.visible]
        cards = [self._physical(word) for word in words.split(",")]
        if container.is_whole:
            return {uuid: self.sizes.get(uuid, 0) for uuid in cards}
        counts = sorted(Counter(decode_device_id(each)[0] for each in container.ids).items())
        return {uuid: units for uuid, (_, units) in zip(cards, counts, strict=True)}

    def _physical(self, word: str) -> str:
        if not word.isdecimal():
            return word
        return self.machine[int(word)][0] if int(word) < len(self.machine) else f"no card {word}"

    def problems(self) -> list[str]:
        """What is wrong: a card given twice, or a view that says something else than what containers were given."""
        found: list[str] = []
        used: Counter[str] = Counter()
        for container in self.kubelet.values():
            used.update(self.given(container))
        found += [f"{uuid}: {units} of {self.sizes.get(uuid, 0)}" for uuid, units in used.items()
                  if uuid in self.sizes and units > self.sizes[uuid]]  # fmt: skip
        if self.rig.agent.inventory is None or NODE not in self.view.ledger.nodes:
            return found
        node = self.view.ledger.nodes[NODE]
        number_of = {state.card.uuid: state.index for state in node.cards.values() if state.card is not None}
        bound = {name for name in self.pods if name not in self.kubelet}
        for uuid, size in self.machine:
            if uuid not in number_of:
                continue
            state = node.cards[number_of[uuid]]
            waiting = sum(grant.units for name in bound for grant in self._assigned(name) if grant.index == state.index)
            if state.held != used[uuid] + waiting or state.total != size:
                found.append(f"the ledger says {state.held}/{state.total} of {uuid}, it is {used[uuid]}/{size}")
        for name, container in self.kubelet.items():
            said = self.pods[name].metadata.annotations[CARD_UUID].split(",")
            real = [uuid for uuid in self.given(container) if uuid in self.sizes]
            if len(real) == len(said) and sorted(said) != sorted(real):
                found.append(f"the record of {name} says {said}, it has {real}")
        cards = {card.index: card.uuid for card in self._cards()}
        for name in sorted(bound & self.bound.keys()) if self.follows else ():
            for grant in self._assigned(name):
                if self.bound[name] in dict(self.machine) and cards.get(grant.index) != self.bound[name]:
                    found.append(f"{name} was bound to {self.bound[name]}, and its number means another card now")
        return found

    def _cards(self) -> Iterable[Card]:
        inventory = self.rig.agent.inventory
        return inventory.cards if inventory is not None else ()

    def _fitting(self, request: CardRequest) -> list[CardState]:
        node = self.view.ledger.nodes.get(NODE)
        return [state for state in node.cards.values() if state.can_hold(request)] if node is not None else []

    def _assigned(self, name: str) -> list[CardGrant]:
        assignment = self.view.ledger.assignment(self.pods[name].metadata.uid)
        return list(assignment.grants) if assignment is not None else []

    # Steps

    def _meet_api_server(self) -> None:
        """Let the plugin see the Node and all of its pods."""
        self.rig.agent.node_applied(self._node())
        for pod in self.pods.values():
            self.rig.agent.pod_applied(pod)
        self.rig.agent.pods_retained(frozenset(pod.metadata.uid for pod in self.pods.values()))

    async def _admit(self, name: str, size: int, *, whole: bool) -> bool:
        parts = self.rig.parts
        allocator = parts.whole_allocator if whole else parts.allocator
        held = {each for container in self.kubelet.values() for each in container.ids}
        free = sorted(set(self.rig.healthy(whole=whole)) - held)
        if len(free) < size:
            return False
        try:
            preferred = await allocator.prefer(PreferredRequest(device_ids(free), device_ids([]), size))
            ids = tuple(pb.ContainerPreferredAllocationResponse.FromString(b"".join(preferred)).deviceIDs)
            answer = await allocator.allocate(device_ids(sorted(ids)))
        except Refused:
            self.end(name)
            return False
        self.ended.clear()
        self.kubelet[name] = Container(self.pods[name].metadata.uid, ids, answer.SerializeToString())
        self.see_kubelet()
        self.settle()
        return True

    def _apply(self, pod: Pod) -> None:
        self.pods[pod.metadata.name] = pod
        self.rig.agent.pod_applied(pod)
        self.view.pod_applied(pod)

    def see_kubelet(self) -> None:
        """Have the plugin read what podresources shows."""
        held = {f"default/{name}": sorted(each.ids) for name, each in self.kubelet.items()}
        self.rig.read(allocations(held, container="main"))

    def _hold(self, held: Mapping[str, Card]) -> None:
        if self.roster.hold(held, 0.0):
            self.rig.agent.on_cards_change(self.roster.snapshot())

    def _node(self) -> Node:
        return msgspec.convert({"metadata": {"name": NODE, "uid": "n", "annotations": dict(self.annotations)}}, Node)
