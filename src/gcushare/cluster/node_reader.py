"""Reads the cards of each Node, and remembers which could not be read, counted or trusted."""

from __future__ import annotations

from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.errors import RemoteContractError
from gcushare.vendors.vendor import Vendor
from gcushare.wire.nodes import NodeCards, node_cards
from gcushare.wire.objects import Node


class NodeReader:
    """The Nodes of one vendor as they were read last, by name."""

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self.problems: dict[str, str] = {}
        """Why a node takes no pods."""
        self.without_units: set[str] = set()
        """Nodes whose cards the kubelet counts as 0: no pod can be placed there."""
        self.distrusted: set[str] = set()
        """Nodes whose memory the kubelet counts in another unit, or for another system: no pod is placed there."""
        self.whole_elsewhere: set[str] = set()
        """Nodes on which another plugin serves whole cards: kube-scheduler goes by the kubelet's count of them."""
        self._agreed: dict[str, int] = {}
        """The kubelet's count of memory when it was last that of the inventory."""
        self.marks: dict[str, int] = {}
        """A hash of what was read, of every node with and without cards."""

    def has_changed(self, node: Node) -> bool:
        """Whether anything about a node's cards changed since it was read; costs next to nothing if not."""
        vendor, annotations, capacity = self._vendor, node.metadata.annotations, node.status.capacity
        counts = (vendor.memory_resource, vendor.count_resource, vendor.whole_card_resource)
        texts = (annotations.get(key) for key in (vendor.inventory_annotation, vendor.cordon_annotation))
        mark = hash((*texts, *map(capacity.get, counts)))
        if self.marks.get(node.metadata.name) == mark:
            return False
        self.marks[node.metadata.name] = mark
        return True

    def read(self, node: Node) -> NodeCards | None:
        """Read a node's cards; None if it has none of this vendor.

        A node whose cards cannot be read has no cards, and its reason is in ``problems``.
        """
        name, capacity = node.metadata.name, node.status.capacity
        self.without_units.discard(name)
        self.distrusted.discard(name)
        self.whole_elsewhere.discard(name)
        try:
            found = node_cards(self._vendor, node.metadata.annotations, capacity, agreed=self._agreed.get(name, 0))
        except RemoteContractError as error:
            self.problems[name] = str(error)
            return NodeCards((), None)
        self.problems.pop(name, None)
        modes = found.modes if found is not None else ()
        if capacity.get(self._vendor.whole_card_resource, "0") != "0" and not {SERVES_WHOLE, SERVES_CLAIMS} & {*modes}:
            self.whole_elsewhere.add(name)
        if found is None:
            return None
        if found.distrust:
            self.problems[name] = found.distrust
            self.distrusted.add(name)
        elif found.is_agreed:
            self._agreed[name] = found.counted
        resources = {SERVES_MEMORY: self._vendor.memory_resource, SERVES_WHOLE: self._vendor.whole_card_resource}
        if any(capacity.get(resources[mode], "0") == "0" for mode in found.modes if mode in resources):
            self.without_units.add(name)
        return found

    def forget(self, name: str) -> None:
        """Drop a node that is gone."""
        for known in (self.marks, self.problems, self._agreed):
            known.pop(name, None)
        for names in (self.without_units, self.distrusted, self.whole_elsewhere):
            names.discard(name)
