"""The simulated cluster: the ledger with its cards, and each node's CPU and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.packing.workload import EmptyNode
from gcushare.core.assignments import PodRef
from gcushare.core.cards import InventoryCard
from gcushare.core.change_log import NameLog
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.packing.expected_fill import Demand, Room, Spot
from gcushare.core.packing.learned_fill import rank_at, room_of
from gcushare.core.placement import POLICIES
from gcushare.core.requests import CardRequest

_FULLEST = POLICIES["binpack"].rank_card


@dataclass(slots=True)
class SimulatedNode:
    """One node: its state in the ledger, what is left of CPU and memory, and the same as a ``Room``."""

    spec: EmptyNode
    state: NodeState
    cpu_milli: int
    memory_mib: int
    room: Room


class SimulatedCluster:
    """Nodes in order of name. Cards are counted by the ledger, through the calls that the extender makes.

    CPU and memory are this benchmark's own addition: the extender leaves them to kube-scheduler.
    """

    def __init__(self, specs: Iterable[EmptyNode]) -> None:
        self.ledger = Ledger()
        self.changes = NameLog()
        """The nodes that changed, cards or not, for a policy that caches their scores."""
        self.nodes: list[SimulatedNode] = []
        self.index_of: dict[str, int] = {}
        self.pods: dict[str, tuple[int, Demand]] = {}
        """Pods that are placed, by uid: the node's position and what they hold."""
        self.kinds: dict[str, Counter[tuple[int, bool]]] = {}
        """By node, its pods with cards by cards and whether they hold them whole."""
        self._rooms: dict[Room, Room] = {}
        for spec in sorted(specs, key=lambda each: each.name):
            cards = (
                InventoryCard(index=index, uuid="", memory_bytes=0, model=spec.model, units=spec.card_units)
                for index in range(spec.cards)
            )
            self.ledger.set_node(spec.name, cards, None)
            state = self.ledger.nodes[spec.name]
            room = Room(spec.cpu_milli, spec.memory_mib, (), (), spec.model)
            node = SimulatedNode(spec, state, spec.cpu_milli, spec.memory_mib, room)
            self.index_of[spec.name] = len(self.nodes)
            self.nodes.append(node)
            self.kinds[spec.name] = Counter()
            self.note_change(node)
        self.total_units = sum(node.state.total for node in self.nodes)

    @property
    def used_units(self) -> int:
        return sum(node.state.used for node in self.nodes)

    @property
    def card_units(self) -> int:
        """Units of the largest card."""
        return max(node.spec.card_units for node in self.nodes)

    def place(self, uid: str, index: int, demand: Demand, spot: Spot | None) -> None:
        """Give a pod its room on a node, on the card named by ``spot``, or on the fullest that fit.

        Raises:
            Refused: the ledger says that it does not fit.
        """
        node = self.nodes[index]
        if demand.cards:
            rank = _FULLEST if spot is None else rank_at(spot)
            self.ledger.reserve(PodRef(uid, "simulated", uid), node.spec.name, request_of(demand), rank)
            self.kinds[node.spec.name][demand.cards, demand.whole] += 1
        self.pods[uid] = (index, demand)
        node.cpu_milli -= demand.cpu_milli
        node.memory_mib -= demand.memory_mib
        self.note_change(node)

    def end(self, uid: str) -> Demand:
        """A pod ends: everything it held is free again."""
        index, demand = self.pods.pop(uid)
        node = self.nodes[index]
        if demand.cards:
            self.ledger.forget(uid)
            self.kinds[node.spec.name] -= Counter([(demand.cards, demand.whole)])
        node.cpu_milli += demand.cpu_milli
        node.memory_mib += demand.memory_mib
        self.note_change(node)
        return demand

    def note_change(self, node: SimulatedNode) -> None:
        """Take over a change of the node's cards, CPU or memory."""
        room = room_of(node.state, node.cpu_milli, node.memory_mib, node.spec.model)
        node.room = self._rooms.setdefault(room, room)
        self.changes.record(node.spec.name)


def request_of(demand: Demand) -> CardRequest:
    """The demand as a request to the ledger."""
    return CardRequest(units=demand.units, cards=demand.cards, whole=demand.whole)
